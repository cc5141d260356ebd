-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS newer_tags (
    lookup VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    position BIGINT NOT NULL,
    tag VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    digest VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    problem TEXT NOT NULL,
    image VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of tag_images, '' for none
    PRIMARY KEY (lookup, position),
    INDEX newer_tags_image (image),
    FOREIGN KEY (lookup) REFERENCES tag_lookups (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE newer_tags;
