-- +goose NO TRANSACTION
-- +goose Up
-- The last database build of which an event said that it is old.
CREATE TABLE IF NOT EXISTS stale_told (
    build_id VARCHAR(255) NOT NULL,
    PRIMARY KEY (build_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE stale_told;
