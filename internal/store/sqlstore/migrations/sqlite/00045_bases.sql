-- What images were built on. image_layers has the layers of each image, the lowest at 0: diff_id identifies a layer, chain_id a layer with all below it, is_top
-- is 1 for the highest one, and application is the last part of the repository. stated_bases has what images state.

-- +goose Up
CREATE TABLE image_layers (
    image_pk BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    diff_id  TEXT NOT NULL,
    chain_id TEXT NOT NULL,
    is_top   BIGINT NOT NULL,
    application TEXT NOT NULL,
    PRIMARY KEY (image_pk, position)
);
CREATE INDEX image_layers_chain ON image_layers (chain_id, position, is_top, image_pk);
CREATE TABLE stated_bases (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    name     TEXT NOT NULL,
    digest   TEXT NOT NULL
);

-- +goose Down
DROP TABLE stated_bases;
DROP TABLE image_layers;
