-- Numbers are given by the program, under the lock of transactions that write: there are no holes.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS events (
    seq      BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    kind     VARCHAR(255) NOT NULL,
    image_id VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    platform VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    data     LONGTEXT NOT NULL,
    PRIMARY KEY (seq)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE events;
