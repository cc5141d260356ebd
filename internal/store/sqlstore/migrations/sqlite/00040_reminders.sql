-- What events have said of what will happen, or has not happened, so that none says it again.

-- +goose Up
-- The decisions of which an event said that they expire soon.
CREATE TABLE expiring_told (
    decision_pk BIGINT NOT NULL PRIMARY KEY REFERENCES decisions (id) ON DELETE CASCADE
) WITHOUT ROWID;
-- The last database build of which an event said that it is old.
CREATE TABLE stale_told (
    build_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

-- +goose Down
DROP TABLE stale_told;
DROP TABLE expiring_told;
