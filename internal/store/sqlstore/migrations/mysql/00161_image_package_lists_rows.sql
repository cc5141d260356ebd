-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO image_package_lists (image_pk, package_pk, packages)
    SELECT image_pk, MIN(package_pk), GROUP_CONCAT(package_pk * 2 + excluded) FROM image_packages GROUP BY image_pk;

-- +goose Down
DELETE FROM image_package_lists;
