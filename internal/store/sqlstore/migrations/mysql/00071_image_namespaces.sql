-- +goose NO TRANSACTION
-- +goose Up
-- One row for each namespace that runs an image, or in which namespace_last_uses keeps it.
CREATE TABLE IF NOT EXISTS image_namespaces (
    namespace VARCHAR(255) NOT NULL,
    image_pk  BIGINT NOT NULL,
    since     BIGINT NOT NULL,
    PRIMARY KEY (namespace, image_pk),
    INDEX image_namespaces_image (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_namespaces;
