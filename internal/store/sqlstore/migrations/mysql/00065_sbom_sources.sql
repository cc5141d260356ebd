-- +goose NO TRANSACTION
-- +goose Up
-- How images were read for their SBOMs, and how many of their files and directories could not be read.
CREATE TABLE IF NOT EXISTS sbom_sources (
    image_pk   BIGINT NOT NULL,
    source     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    unreadable BIGINT NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sbom_sources;
