-- +goose NO TRANSACTION
-- +goose Up
-- The programs that wrote SBOMs, with their versions.
CREATE TABLE IF NOT EXISTS sbom_catalogers (
    image_pk  BIGINT NOT NULL,
    cataloger VARCHAR(255) NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sbom_catalogers;
