-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS report_items (
    sink         VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    item         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    target       TEXT NOT NULL, -- as JSON
    stamp        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version      BIGINT NOT NULL,
    due          BIGINT NOT NULL, -- 1: the sink does not have it as it is
    gone         BIGINT NOT NULL, -- 1: the sink has to remove it
    attempts     BIGINT NOT NULL,
    next_at      BIGINT NOT NULL,
    delivered_at BIGINT NOT NULL,
    digest       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    problem      TEXT NOT NULL,
    PRIMARY KEY (sink, item),
    FOREIGN KEY (sink) REFERENCES report_sinks (sink) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE report_items;
