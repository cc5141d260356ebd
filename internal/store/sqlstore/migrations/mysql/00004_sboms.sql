-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS sboms (
    image_pk   BIGINT NOT NULL,
    media_type VARCHAR(255) NOT NULL,
    sha256     VARCHAR(255) NOT NULL,
    size       BIGINT NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sboms;
