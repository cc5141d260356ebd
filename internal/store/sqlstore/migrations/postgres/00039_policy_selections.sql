-- What the selectors of policies select: workloads, and namespaces as a whole, with no kind and no name.

-- +goose Up
CREATE TABLE policy_selected (
    policy_pk BIGINT NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (policy_pk, namespace, kind, name)
);
CREATE INDEX policy_selected_namespace ON policy_selected (namespace, policy_pk);
-- A digest of these rows for each policy with selectors.
CREATE TABLE policy_selections (
    policy_pk BIGINT NOT NULL PRIMARY KEY REFERENCES policies (id) ON DELETE CASCADE,
    digest    TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE policy_selections;
DROP TABLE policy_selected;
