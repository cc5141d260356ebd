-- The Jobs that the operator reserved or created. uid is '' until the API server has confirmed the Job, sbom_sha256 until it has delivered an
-- SBOM. An attempt is open while nonce and attempt are those of its image.

-- +goose Up
CREATE TABLE scan_jobs (
    name        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    namespace   TEXT COLLATE "C" NOT NULL,
    uid         TEXT COLLATE "C" NOT NULL,
    image_id    TEXT COLLATE "C" NOT NULL,
    platform    TEXT COLLATE "C" NOT NULL,
    nonce       TEXT COLLATE "C" NOT NULL,
    attempt     BIGINT NOT NULL,
    scanner_uid TEXT COLLATE "C" NOT NULL,
    for_namespace TEXT COLLATE "C" NOT NULL,
    size_class  TEXT COLLATE "C" NOT NULL,
    spec        TEXT COLLATE "C" NOT NULL,
    sbom_sha256 TEXT COLLATE "C" NOT NULL
);
CREATE INDEX scan_jobs_uid ON scan_jobs (uid);

-- +goose Down
DROP TABLE scan_jobs;
