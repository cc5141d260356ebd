-- +goose NO TRANSACTION
-- +goose Up
-- The content of SBOMs, cut into parts that fit into one statement of every database.
CREATE TABLE IF NOT EXISTS sbom_parts (
    image_pk BIGINT NOT NULL,
    part     BIGINT NOT NULL,
    content  LONGBLOB NOT NULL,
    PRIMARY KEY (image_pk, part),
    FOREIGN KEY (image_pk) REFERENCES sboms (image_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sbom_parts;
