-- +goose NO TRANSACTION
-- +goose Up
-- When objects of object_states were last known to exist, to within a day. Objects without a row are older than the table.
CREATE TABLE IF NOT EXISTS object_last_seen (
    object VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (object)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE object_last_seen;
