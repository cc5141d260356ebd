-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS tag_image_parts (
    image VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    part BIGINT NOT NULL,
    content LONGBLOB NOT NULL,
    PRIMARY KEY (image, part),
    FOREIGN KEY (image) REFERENCES tag_images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE tag_image_parts;
