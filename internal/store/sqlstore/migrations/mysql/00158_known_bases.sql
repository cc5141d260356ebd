-- +goose NO TRANSACTION
-- +goose Up
-- Which packages of base images with newer tags the images lack that were built on them. known_bases has the bases for which that was read; base_lacks has the
-- packages, unless complete is 0: then images lack so many that it is not worth while to keep them.
CREATE TABLE IF NOT EXISTS known_bases (
    base_pk  BIGINT NOT NULL PRIMARY KEY,
    complete BIGINT NOT NULL,
    FOREIGN KEY (base_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE known_bases;
