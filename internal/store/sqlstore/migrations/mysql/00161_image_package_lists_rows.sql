-- +goose NO TRANSACTION
-- +goose Up
-- With the lock, the rows that it reads are those of the moment of the insert at any isolation level.
INSERT INTO image_package_lists (image_pk, package_pk, packages)
    SELECT image_pk, MIN(package_pk), GROUP_CONCAT(package_pk * 2 + excluded) FROM image_packages GROUP BY image_pk LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE image_pk = image_package_lists.image_pk;

-- +goose Down
DELETE FROM image_package_lists;
