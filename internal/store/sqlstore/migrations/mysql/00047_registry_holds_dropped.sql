-- +goose NO TRANSACTION
-- +goose Up
DROP TABLE IF EXISTS registry_holds;

-- +goose Down
CREATE TABLE IF NOT EXISTS registry_holds (
    host       VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    until_time BIGINT NOT NULL,
    reason     VARCHAR(1024) NOT NULL,
    PRIMARY KEY (host)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
