-- The programs that wrote SBOMs, with their versions.

-- +goose Up
CREATE TABLE sbom_catalogers (
    image_pk  BIGINT NOT NULL PRIMARY KEY REFERENCES sboms (image_pk) ON DELETE CASCADE,
    cataloger TEXT   NOT NULL
);

-- +goose Down
DROP TABLE sbom_catalogers;
