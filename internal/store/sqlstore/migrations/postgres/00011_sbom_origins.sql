-- The namespaces of the scans that SBOMs come from.

-- +goose Up
CREATE TABLE sbom_origins (
    image_pk  BIGINT NOT NULL PRIMARY KEY REFERENCES sboms (image_pk) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE sbom_origins;
