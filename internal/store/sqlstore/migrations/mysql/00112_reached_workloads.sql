-- +goose NO TRANSACTION
-- +goose Up
-- The workloads that it has there if these are not all.
CREATE TABLE IF NOT EXISTS reached_workloads (
    reach     BIGINT NOT NULL,
    image_pk  BIGINT NOT NULL,
    namespace VARBINARY(255) NOT NULL,
    kind      VARBINARY(255) NOT NULL,
    name      VARBINARY(255) NOT NULL,
    PRIMARY KEY (reach, image_pk, namespace, kind, name),
    INDEX reached_workloads_image (image_pk, reach),
    FOREIGN KEY (reach) REFERENCES reaches (id) ON DELETE CASCADE,
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE reached_workloads;
