-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS shared_database_parts (
    database_id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    part        BIGINT NOT NULL,
    content     LONGBLOB NOT NULL,
    PRIMARY KEY (database_id, part),
    FOREIGN KEY (database_id) REFERENCES shared_databases (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE shared_database_parts;
