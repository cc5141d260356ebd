-- +goose NO TRANSACTION
-- +goose Up
-- What was last told of objects of the cluster, by digests of their kind, namespace and name and of what was told.
CREATE TABLE IF NOT EXISTS object_states (
    object VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    told   VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (object)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE object_states;
