-- The repositories that images were pulled from, where they are not those of the image IDs.

-- +goose Up
CREATE TABLE sbom_repositories (
    image_pk   BIGINT NOT NULL PRIMARY KEY REFERENCES sboms (image_pk) ON DELETE CASCADE,
    repository TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE sbom_repositories;
