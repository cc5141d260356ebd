-- What each image holds, as one text: the IDs of its packages, times two, plus one for those that it excludes. Each row refers to one of the rows that it follows
-- from, so that it is gone when these are replaced, also by a process that does not know this table.

-- +goose Up
CREATE TABLE image_package_lists (
    image_pk   INTEGER PRIMARY KEY,
    package_pk BIGINT NOT NULL,
    packages   TEXT   NOT NULL,
    FOREIGN KEY (image_pk, package_pk) REFERENCES image_packages (image_pk, package_pk) ON DELETE CASCADE
);
INSERT INTO image_package_lists (image_pk, package_pk, packages)
    SELECT image_pk, MIN(package_pk), GROUP_CONCAT(package_pk * 2 + excluded) FROM image_packages GROUP BY image_pk;

-- +goose Down
DROP TABLE image_package_lists;
