-- +goose NO TRANSACTION
-- +goose Up
-- Changes that are not about all images that hold the package, with a digest of their content.
CREATE TABLE IF NOT EXISTS change_variants (
    change_id BIGINT NOT NULL,
    variant   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (change_id),
    FOREIGN KEY (change_id) REFERENCES finding_changes (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE change_variants;
