-- +goose NO TRANSACTION
-- +goose Up
DROP TABLE IF EXISTS image_last_uses;

-- +goose Down
CREATE TABLE IF NOT EXISTS image_last_uses (
    image_pk BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
