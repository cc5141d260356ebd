-- +goose NO TRANSACTION
-- +goose Up
-- Until when dates that passed have been told by events: one row with id 1.
CREATE TABLE IF NOT EXISTS deadlines_told (
    id         BIGINT NOT NULL,
    told_until BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE deadlines_told;
