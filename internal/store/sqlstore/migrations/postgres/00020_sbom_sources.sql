-- How images were read for their SBOMs, and how many of their files and directories could not be read.

-- +goose Up
CREATE TABLE sbom_sources (
    image_pk   BIGINT NOT NULL PRIMARY KEY REFERENCES sboms (image_pk) ON DELETE CASCADE,
    source     TEXT COLLATE "C" NOT NULL,
    unreadable BIGINT NOT NULL
);

-- +goose Down
DROP TABLE sbom_sources;
