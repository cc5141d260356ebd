-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS notification_messages (
    id          BIGINT NOT NULL AUTO_INCREMENT,
    rule        VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sink        VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    in_group    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    message_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sealed      BIGINT NOT NULL, -- 1: sending has begun, so the content does not change any more
    ready_at    BIGINT NOT NULL,
    content     LONGTEXT NOT NULL, -- as JSON
    PRIMARY KEY (id),
    INDEX notification_messages_ready (rule, sink, ready_at, id),
    FOREIGN KEY (rule, sink) REFERENCES notification_sinks (rule, sink) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE notification_messages;
