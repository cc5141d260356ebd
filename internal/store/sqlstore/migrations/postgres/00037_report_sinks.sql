-- What systems that get reports have, and how far the event log was read for them.

-- +goose Up
CREATE TABLE report_sinks (
    sink         TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- the UID of the object
    seq          BIGINT NOT NULL, -- up to which event the log was read
    synced_at    BIGINT NOT NULL, -- when all items were due last
    delivered_at BIGINT NOT NULL
);
CREATE TABLE report_items (
    sink         TEXT COLLATE "C" NOT NULL REFERENCES report_sinks (sink) ON DELETE CASCADE,
    item         TEXT COLLATE "C" NOT NULL,
    target       TEXT COLLATE "C" NOT NULL, -- as JSON
    stamp        TEXT COLLATE "C" NOT NULL,
    version      BIGINT NOT NULL,
    due          BIGINT NOT NULL, -- 1: the sink does not have it as it is
    gone         BIGINT NOT NULL, -- 1: the sink has to remove it
    attempts     BIGINT NOT NULL,
    next_at      BIGINT NOT NULL,
    delivered_at BIGINT NOT NULL,
    digest       TEXT COLLATE "C" NOT NULL,
    problem      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (sink, item)
);

-- +goose Down
DROP TABLE report_items;
DROP TABLE report_sinks;
