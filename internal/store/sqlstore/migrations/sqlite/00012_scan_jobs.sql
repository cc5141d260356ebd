-- The Jobs that the operator reserved or created. uid is '' until the API server has confirmed the Job, sbom_sha256 until it has delivered an
-- SBOM. An attempt is open while nonce and attempt are those of its image.

-- +goose Up
CREATE TABLE scan_jobs (
    name        TEXT   NOT NULL PRIMARY KEY,
    namespace   TEXT   NOT NULL,
    uid         TEXT   NOT NULL,
    image_id    TEXT   NOT NULL,
    platform    TEXT   NOT NULL,
    nonce       TEXT   NOT NULL,
    attempt     BIGINT NOT NULL,
    scanner_uid TEXT   NOT NULL,
    for_namespace TEXT NOT NULL,
    size_class  TEXT   NOT NULL,
    spec        TEXT   NOT NULL,
    sbom_sha256 TEXT   NOT NULL
);
CREATE INDEX scan_jobs_uid ON scan_jobs (uid);

-- +goose Down
DROP TABLE scan_jobs;
