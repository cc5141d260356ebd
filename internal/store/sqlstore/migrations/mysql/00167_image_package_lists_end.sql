-- +goose NO TRANSACTION
-- +goose Up
DELETE FROM image_package_lists;

-- +goose Down
SELECT 1;
