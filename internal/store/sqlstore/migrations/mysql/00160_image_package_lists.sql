-- +goose NO TRANSACTION
-- +goose Up
-- What each image holds, as one text: the IDs of its packages, times two, plus one for those that it excludes. Each row refers to one of the rows that it follows
-- from, so that it is gone when these are replaced, also by a process that does not know this table.
CREATE TABLE IF NOT EXISTS image_package_lists (
    image_pk   BIGINT NOT NULL,
    package_pk BIGINT NOT NULL,
    packages   LONGTEXT NOT NULL,
    PRIMARY KEY (image_pk, package_pk),
    FOREIGN KEY (image_pk, package_pk) REFERENCES image_packages (image_pk, package_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_package_lists;
