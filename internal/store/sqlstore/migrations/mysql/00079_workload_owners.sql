-- +goose NO TRANSACTION
-- +goose Up
-- Who is responsible for workloads. A row remains while the workload runs something, is in the coverage or is in the history.
-- Bytes instead of text, so that the key is compared with that of image_uses as it is.
CREATE TABLE IF NOT EXISTS workload_owners (
    namespace VARBINARY(255) NOT NULL,
    kind      VARBINARY(255) NOT NULL,
    name      VARBINARY(255) NOT NULL,
    owner     VARCHAR(255) NOT NULL,
    PRIMARY KEY (namespace, kind, name),
    INDEX workload_owners_owner (owner)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE workload_owners;
