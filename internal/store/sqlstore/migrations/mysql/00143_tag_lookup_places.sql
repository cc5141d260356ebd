-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS tag_lookup_places (
    lookup VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    namespace VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (lookup, namespace),
    FOREIGN KEY (lookup) REFERENCES tag_lookups (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE tag_lookup_places;
