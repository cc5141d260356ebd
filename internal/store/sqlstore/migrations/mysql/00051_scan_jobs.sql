-- +goose NO TRANSACTION
-- +goose Up
-- The Jobs that the operator reserved or created. uid is '' until the API server has confirmed the Job, sbom_sha256 until it has delivered an
-- SBOM. An attempt is open while nonce and attempt are those of its image.
CREATE TABLE IF NOT EXISTS scan_jobs (
    name        VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    namespace   VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    uid         VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    image_id    VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    platform    VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    nonce       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt     BIGINT NOT NULL,
    scanner_uid VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    for_namespace VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    size_class  VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    spec        MEDIUMTEXT NOT NULL,
    sbom_sha256 VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (name),
    KEY scan_jobs_uid (uid)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE scan_jobs;
