-- +goose NO TRANSACTION
-- +goose Up
-- What images were built on. image_layers has the layers of each image, the lowest at 0: diff_id identifies a layer, chain_id a layer with all below it, is_top
-- is 1 for the highest one, and application is the last part of the repository. stated_bases has what images state.
CREATE TABLE IF NOT EXISTS image_layers (
    image_pk BIGINT NOT NULL,
    position BIGINT NOT NULL,
    diff_id  VARCHAR(255) NOT NULL,
    chain_id VARCHAR(255) NOT NULL,
    is_top   BIGINT NOT NULL,
    application VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (image_pk, position),
    INDEX image_layers_chain (chain_id, position, is_top, image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_layers;
