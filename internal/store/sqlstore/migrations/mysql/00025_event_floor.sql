-- +goose NO TRANSACTION
-- +goose Up
-- Up to which sequence number events have been removed.
CREATE TABLE IF NOT EXISTS event_floor (
    id  BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE event_floor;
