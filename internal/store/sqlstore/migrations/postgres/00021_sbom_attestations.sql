-- The keys that verified SBOMs which were attested in registries.

-- +goose Up
CREATE TABLE sbom_attestations (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES sboms (image_pk) ON DELETE CASCADE,
    key_id   TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE sbom_attestations;
