-- What was last told of objects of the cluster, by digests of their kind, namespace and name and of what was told.

-- +goose Up
CREATE TABLE object_states (
    object TEXT NOT NULL PRIMARY KEY,
    told   TEXT NOT NULL
);

-- +goose Down
DROP TABLE object_states;
