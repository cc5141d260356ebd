-- +goose NO TRANSACTION
-- +goose Up
-- The keys that verified SBOMs which were attested in registries.
CREATE TABLE IF NOT EXISTS sbom_attestations (
    image_pk BIGINT NOT NULL,
    key_id   VARCHAR(255) NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sbom_attestations;
