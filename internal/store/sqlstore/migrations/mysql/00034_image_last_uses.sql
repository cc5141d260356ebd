-- +goose NO TRANSACTION
-- +goose Up
-- When an image was last seen to run no more somewhere; presences tell more, but are not kept as long.
CREATE TABLE IF NOT EXISTS image_last_uses (
    image_pk BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_last_uses;
