-- +goose NO TRANSACTION
-- +goose Up
DROP TABLE IF EXISTS deadlines_told;

-- +goose Down
CREATE TABLE IF NOT EXISTS deadlines_told (
    id         BIGINT NOT NULL,
    told_until BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
