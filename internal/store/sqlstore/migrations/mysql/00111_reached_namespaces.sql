-- +goose NO TRANSACTION
-- +goose Up
-- The images that a reach with places has in a namespace where they are visible. partly says that it has not all of the workloads that run the
-- image there.
CREATE TABLE IF NOT EXISTS reached_namespaces (
    reach     BIGINT NOT NULL,
    image_pk  BIGINT NOT NULL,
    namespace VARBINARY(255) NOT NULL,
    partly    BIGINT NOT NULL,
    PRIMARY KEY (reach, image_pk, namespace),
    INDEX reached_namespaces_image (image_pk, namespace, reach),
    FOREIGN KEY (reach) REFERENCES reaches (id) ON DELETE CASCADE,
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE reached_namespaces;
