-- What is known of images that are cataloged again: for which cataloger, since when, and whether attempts go on (is_open = 1).

-- +goose Up
CREATE TABLE recatalogs (
    image_pk   BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    cataloger  TEXT   NOT NULL,
    started_at BIGINT NOT NULL,
    is_open    BIGINT NOT NULL
);

-- +goose Down
DROP TABLE recatalogs;
