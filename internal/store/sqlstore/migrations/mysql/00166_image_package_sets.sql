-- +goose NO TRANSACTION
-- +goose Up
-- What each image holds, as one value: the IDs of its packages, times two, plus one for those that it excludes, in ascending order, each as the difference to the previous one,
-- as a varint. Each row refers to one of the rows that it follows from, so that it is gone when these are replaced, also by a process that does not know this table.
-- The leader writes the rows after its start. image_package_lists, which has the same as a text, is left for processes of the previous version, which read image_packages
-- where it has no row.
CREATE TABLE IF NOT EXISTS image_package_sets (
    image_pk   BIGINT NOT NULL,
    package_pk BIGINT NOT NULL,
    packages   LONGBLOB NOT NULL,
    PRIMARY KEY (image_pk, package_pk),
    FOREIGN KEY (image_pk, package_pk) REFERENCES image_packages (image_pk, package_pk) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_package_sets;
