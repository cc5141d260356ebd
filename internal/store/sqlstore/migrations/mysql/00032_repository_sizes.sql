-- +goose NO TRANSACTION
-- +goose Up
-- How much memory scans of the images of a repository need. class is S, M or L; a repository without a row has S.
CREATE TABLE IF NOT EXISTS repository_sizes (
    repository VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    class      VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (repository)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE repository_sizes;
