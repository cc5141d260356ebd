-- +goose NO TRANSACTION
-- +goose Up
-- What is known of images that are cataloged again: for which cataloger, since when, and whether attempts go on (is_open = 1).
CREATE TABLE IF NOT EXISTS recatalogs (
    image_pk   BIGINT NOT NULL,
    cataloger  VARCHAR(255) NOT NULL,
    started_at BIGINT NOT NULL,
    is_open    BIGINT NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE recatalogs;
