-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS tag_images (
    id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, -- a digest of the next five
    scope VARCHAR(255) NOT NULL,
    scanned_in VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the namespace of the Job
    repository VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    platform VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    digest VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    cataloger TEXT NOT NULL,
    media_type VARCHAR(255) NOT NULL,
    sbom_sha256 VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sbom_size BIGINT NOT NULL,
    saved_at BIGINT NOT NULL,
    result_set BIGINT NOT NULL, -- 0 before it is matched
    build VARCHAR(255) NOT NULL,
    findings LONGBLOB NOT NULL,
    problem TEXT NOT NULL,
    INDEX tag_images_scope (scope, repository, platform),
    INDEX tag_images_result_set (result_set)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE tag_images;
