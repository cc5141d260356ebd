-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS notification_rules (
    rule     VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the UID of the object
    seq      BIGINT NOT NULL, -- up to which event the log was read
    hour_at  BIGINT NOT NULL, -- the hour that begun counts
    begun    BIGINT NOT NULL,
    PRIMARY KEY (rule)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE notification_rules;
