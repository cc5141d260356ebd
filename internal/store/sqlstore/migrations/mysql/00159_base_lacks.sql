-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS base_lacks (
    base_pk    BIGINT NOT NULL,
    image_pk   BIGINT NOT NULL,
    package_pk BIGINT NOT NULL,
    PRIMARY KEY (base_pk, package_pk, image_pk),
    INDEX base_lacks_image (image_pk),
    FOREIGN KEY (base_pk) REFERENCES known_bases (base_pk) ON DELETE CASCADE,
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE base_lacks;
