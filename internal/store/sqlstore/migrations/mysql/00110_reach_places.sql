-- +goose NO TRANSACTION
-- +goose Up
-- The places of the reaches of decisions: workloads, or a whole namespace with no kind and no name.
CREATE TABLE IF NOT EXISTS reach_places (
    reach     BIGINT NOT NULL,
    namespace VARBINARY(255) NOT NULL,
    kind      VARBINARY(255) NOT NULL,
    name      VARBINARY(255) NOT NULL,
    PRIMARY KEY (reach, namespace, kind, name),
    INDEX reach_places_namespace (namespace, reach),
    FOREIGN KEY (reach) REFERENCES reaches (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE reach_places;
