-- +goose NO TRANSACTION
-- +goose Up
-- Where a reach with places has some of an image, but not all of its places: rows of reached_namespaces, by namespace.
CREATE TABLE IF NOT EXISTS reached_elsewhere (
    namespace VARBINARY(255) NOT NULL,
    image_pk  BIGINT NOT NULL,
    reach     BIGINT NOT NULL,
    PRIMARY KEY (namespace, image_pk, reach),
    INDEX reached_elsewhere_image (image_pk, reach),
    INDEX reached_elsewhere_reach (reach, image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE,
    FOREIGN KEY (reach) REFERENCES reaches (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE reached_elsewhere;
