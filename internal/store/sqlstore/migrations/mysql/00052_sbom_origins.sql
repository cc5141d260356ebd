-- +goose NO TRANSACTION
-- +goose Up
-- The namespaces of the scans that SBOMs come from.
CREATE TABLE IF NOT EXISTS sbom_origins (
    image_pk  BIGINT NOT NULL,
    namespace VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sbom_origins;
