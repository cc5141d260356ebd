-- +goose NO TRANSACTION
-- +goose Up
-- The sizes of layers as they are transferred, the lowest layer at position 0, where they are known.
CREATE TABLE IF NOT EXISTS layer_sizes (
    image_pk BIGINT NOT NULL,
    position BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    PRIMARY KEY (image_pk, position),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE layer_sizes;
