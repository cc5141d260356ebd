-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS report_sinks (
    sink         VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the UID of the object
    seq          BIGINT NOT NULL, -- up to which event the log was read
    synced_at    BIGINT NOT NULL, -- when all items were due last
    delivered_at BIGINT NOT NULL,
    PRIMARY KEY (sink)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE report_sinks;
