-- What was last told of objects of the cluster, by digests of their kind, namespace and name and of what was told.

-- +goose Up
CREATE TABLE object_states (
    object TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    told   TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE object_states;
