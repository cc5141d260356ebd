-- +goose NO TRANSACTION
-- +goose Up
-- Vulnerability databases that were imported on one replica, for the others; the content is a .tar.zst archive in parts.
CREATE TABLE IF NOT EXISTS shared_databases (
    id             VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    build_id       VARCHAR(255) NOT NULL,
    schema_version LONGTEXT NOT NULL,
    built          BIGINT NOT NULL,
    installed_at   BIGINT NOT NULL,
    allow_older    BIGINT NOT NULL,
    sha256         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    size           BIGINT NOT NULL,
    complete       BIGINT NOT NULL,
    started_at     BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE shared_databases;
