-- When objects of object_states were last known to exist, to within a day. Objects without a row are older than the table.

-- +goose Up
CREATE TABLE object_last_seen (
    object TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at     BIGINT NOT NULL
);

-- +goose Down
DROP TABLE object_last_seen;
