-- Why the layers of images are not known: their files were read from image volumes, and their registries did not state the layers.

-- +goose Up
CREATE TABLE unknown_layers (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES sboms (image_pk) ON DELETE CASCADE,
    reason   TEXT   NOT NULL
);

-- +goose Down
DROP TABLE unknown_layers;
