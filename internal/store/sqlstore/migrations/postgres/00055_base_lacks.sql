-- Which packages of base images with newer tags the images lack that were built on them. known_bases has the bases for which that was read; base_lacks has the
-- packages, unless complete is 0: then images lack so many that it is not worth while to keep them.

-- +goose Up
CREATE TABLE known_bases (
    base_pk  BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    complete BIGINT NOT NULL
);
CREATE TABLE base_lacks (
    base_pk    BIGINT NOT NULL REFERENCES known_bases (base_pk) ON DELETE CASCADE,
    image_pk   BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    package_pk BIGINT NOT NULL,
    PRIMARY KEY (base_pk, package_pk, image_pk)
);
CREATE INDEX base_lacks_image ON base_lacks (image_pk);

-- +goose Down
DROP TABLE base_lacks;
DROP TABLE known_bases;
