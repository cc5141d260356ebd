-- +goose NO TRANSACTION
-- +goose Up
-- What the selectors of policies select: workloads, and namespaces as a whole, with no kind and no name. Bytes instead of text, so that the whole key fits
-- into an index.
CREATE TABLE IF NOT EXISTS policy_selected (
    policy_pk BIGINT NOT NULL,
    namespace VARBINARY(255) NOT NULL,
    kind      VARBINARY(255) NOT NULL,
    name      VARBINARY(255) NOT NULL,
    PRIMARY KEY (policy_pk, namespace, kind, name),
    INDEX policy_selected_namespace (namespace, policy_pk),
    FOREIGN KEY (policy_pk) REFERENCES policies (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE policy_selected;
