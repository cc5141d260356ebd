-- +goose NO TRANSACTION
-- +goose Up
-- When images were created, if their SBOMs state it.
CREATE TABLE IF NOT EXISTS sbom_creations (
    image_pk   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sbom_creations;
