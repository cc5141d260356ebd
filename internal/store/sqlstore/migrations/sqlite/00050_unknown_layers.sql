-- Why the layers of images are not known: their files were read from image volumes, and their registries did not state the layers. And the sizes of
-- layers as they are transferred, the lowest layer at position 0, where they are known.

-- +goose Up
CREATE TABLE unknown_layers (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES sboms (image_pk) ON DELETE CASCADE,
    reason   TEXT   NOT NULL
);
CREATE TABLE layer_sizes (
    image_pk BIGINT NOT NULL REFERENCES sboms (image_pk) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    PRIMARY KEY (image_pk, position)
);

-- +goose Down
DROP TABLE layer_sizes;
DROP TABLE unknown_layers;
