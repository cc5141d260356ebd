-- Messages about changes, and how far the event log was read for them.

-- +goose Up
CREATE TABLE notification_rules (
    rule     TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- the UID of the object
    seq      BIGINT NOT NULL, -- up to which event the log was read
    hour_at  BIGINT NOT NULL, -- the hour that begun counts
    begun    BIGINT NOT NULL
);
CREATE TABLE notification_sinks (
    rule         TEXT COLLATE "C" NOT NULL REFERENCES notification_rules (rule) ON DELETE CASCADE,
    sink         TEXT COLLATE "C" NOT NULL,
    delivered_at BIGINT NOT NULL,
    delivered    BIGINT NOT NULL,
    dropped      BIGINT NOT NULL,
    PRIMARY KEY (rule, sink)
);
CREATE TABLE notification_messages (
    id          BIGSERIAL PRIMARY KEY,
    rule        TEXT COLLATE "C" NOT NULL,
    sink        TEXT COLLATE "C" NOT NULL,
    in_group    TEXT COLLATE "C" NOT NULL,
    message_key TEXT COLLATE "C" NOT NULL,
    sealed      BIGINT NOT NULL, -- 1: sending has begun, so the content does not change any more
    ready_at    BIGINT NOT NULL,
    content     TEXT COLLATE "C" NOT NULL, -- as JSON
    FOREIGN KEY (rule, sink) REFERENCES notification_sinks (rule, sink) ON DELETE CASCADE
);
CREATE INDEX notification_messages_ready ON notification_messages (rule, sink, ready_at, id);

-- +goose Down
DROP TABLE notification_messages;
DROP TABLE notification_sinks;
DROP TABLE notification_rules;
