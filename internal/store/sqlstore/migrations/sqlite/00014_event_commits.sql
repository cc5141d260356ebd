-- Each transaction that wrote events: the sequence number of its last event, and a random ID. A number that is assigned again after a failover
-- has another ID. The ID of an event is that of the first row at or above its number.

-- +goose Up
CREATE TABLE event_commits (
    seq    BIGINT NOT NULL PRIMARY KEY,
    log_id TEXT   NOT NULL
);

-- +goose Down
DROP TABLE event_commits;
