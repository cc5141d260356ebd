-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS notification_sinks (
    rule         VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sink         VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    delivered_at BIGINT NOT NULL,
    delivered    BIGINT NOT NULL,
    dropped      BIGINT NOT NULL,
    PRIMARY KEY (rule, sink),
    FOREIGN KEY (rule) REFERENCES notification_rules (rule) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE notification_sinks;
