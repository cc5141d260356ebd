-- +goose NO TRANSACTION
-- +goose Up
-- The key that replicas seal tokens with, in hexadecimal.
CREATE TABLE IF NOT EXISTS seal_keys (
    id      BIGINT NOT NULL,
    content VARCHAR(255) NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE seal_keys;
