-- +goose NO TRANSACTION
-- +goose Up
-- The repositories that images were pulled from, where they are not those of the image IDs.
CREATE TABLE IF NOT EXISTS sbom_repositories (
    image_pk   BIGINT NOT NULL,
    repository VARCHAR(255) NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sbom_repositories;
