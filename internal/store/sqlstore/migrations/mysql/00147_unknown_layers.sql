-- +goose NO TRANSACTION
-- +goose Up
-- Why the layers of images are not known: their files were read from image volumes, and their registries did not state the layers.
CREATE TABLE IF NOT EXISTS unknown_layers (
    image_pk BIGINT NOT NULL,
    reason   TEXT   NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE unknown_layers;
