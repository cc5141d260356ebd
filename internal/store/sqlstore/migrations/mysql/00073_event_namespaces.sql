-- +goose NO TRANSACTION
-- +goose Up
-- The namespaces that events tell something about.
CREATE TABLE IF NOT EXISTS event_namespaces (
    seq       BIGINT NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    PRIMARY KEY (seq, namespace),
    INDEX event_namespaces_namespace (namespace, seq)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE event_namespaces;
