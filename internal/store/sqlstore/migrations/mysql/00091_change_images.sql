-- +goose NO TRANSACTION
-- +goose Up
-- The images that these changes are about.
CREATE TABLE IF NOT EXISTS change_images (
    change_id BIGINT NOT NULL,
    image_pk  BIGINT NOT NULL,
    PRIMARY KEY (change_id, image_pk),
    INDEX change_images_image (image_pk),
    FOREIGN KEY (change_id) REFERENCES change_variants (change_id) ON DELETE CASCADE,
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE change_images;
