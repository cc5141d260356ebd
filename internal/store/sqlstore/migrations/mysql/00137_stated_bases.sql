-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS stated_bases (
    image_pk BIGINT NOT NULL,
    name     TEXT NOT NULL,
    digest   VARCHAR(255) NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE stated_bases;
