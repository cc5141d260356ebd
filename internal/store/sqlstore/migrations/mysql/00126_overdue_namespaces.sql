-- +goose NO TRANSACTION
-- +goose Up
-- The findings of an image that events told a namespace of: a number of 8 bytes for each vulnerability of a package.
CREATE TABLE IF NOT EXISTS overdue_told_namespaces (
    namespace VARCHAR(255) NOT NULL,
    image_pk  BIGINT       NOT NULL,
    findings  LONGBLOB     NOT NULL,
    PRIMARY KEY (namespace, image_pk),
    INDEX overdue_told_namespaces_image (image_pk),
    FOREIGN KEY (namespace, image_pk) REFERENCES image_namespaces (namespace, image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE overdue_told_namespaces;
