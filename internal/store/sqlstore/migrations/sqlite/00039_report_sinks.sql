-- What systems that get reports have, and how far the event log was read for them.

-- +goose Up
CREATE TABLE report_sinks (
    sink         TEXT   NOT NULL PRIMARY KEY, -- the UID of the object
    seq          BIGINT NOT NULL, -- up to which event the log was read
    synced_at    BIGINT NOT NULL, -- when all items were due last
    delivered_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE report_items (
    sink         TEXT   NOT NULL REFERENCES report_sinks (sink) ON DELETE CASCADE,
    item         TEXT   NOT NULL,
    target       TEXT   NOT NULL, -- as JSON
    stamp        TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    due          BIGINT NOT NULL, -- 1: the sink does not have it as it is
    gone         BIGINT NOT NULL, -- 1: the sink has to remove it
    attempts     BIGINT NOT NULL,
    next_at      BIGINT NOT NULL,
    delivered_at BIGINT NOT NULL,
    digest       TEXT   NOT NULL,
    problem      TEXT   NOT NULL,
    PRIMARY KEY (sink, item)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE report_items;
DROP TABLE report_sinks;
