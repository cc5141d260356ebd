-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO scope_last_uses (scope, image_pk, at) SELECT '', image_pk, at FROM image_last_uses;

-- +goose Down
INSERT IGNORE INTO image_last_uses (image_pk, at) SELECT image_pk, MAX(at) FROM scope_last_uses GROUP BY image_pk;
