-- +goose NO TRANSACTION
-- +goose Up
-- Each transaction that wrote events: the sequence number of its last event, and a random ID. A number that is assigned again after a failover
-- has another ID. The ID of an event is that of the first row at or above its number.
CREATE TABLE IF NOT EXISTS event_commits (
    seq    BIGINT NOT NULL,
    log_id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (seq)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE event_commits;
