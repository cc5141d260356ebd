-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS image_packages (
    image_pk   BIGINT NOT NULL,
    package_pk BIGINT NOT NULL,
    excluded   BIGINT NOT NULL,
    locations  LONGTEXT NOT NULL,
    -- What the image says of the package beside what matching reads, where it is not what the row of the package says.
    own        LONGTEXT NOT NULL,
    PRIMARY KEY (image_pk, package_pk),
    INDEX image_packages_package (package_pk, excluded, image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE,
    FOREIGN KEY (package_pk) REFERENCES packages (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_packages;
