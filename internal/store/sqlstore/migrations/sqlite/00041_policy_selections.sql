-- What the selectors of policies select: workloads, and namespaces as a whole, with no kind and no name.

-- +goose Up
CREATE TABLE policy_selected (
    policy_pk BIGINT NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    namespace TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    PRIMARY KEY (policy_pk, namespace, kind, name)
) WITHOUT ROWID;
CREATE INDEX policy_selected_namespace ON policy_selected (namespace, policy_pk);
-- A digest of these rows for each policy with selectors.
CREATE TABLE policy_selections (
    policy_pk BIGINT NOT NULL PRIMARY KEY REFERENCES policies (id) ON DELETE CASCADE,
    digest    TEXT   NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE policy_selections;
DROP TABLE policy_selected;
