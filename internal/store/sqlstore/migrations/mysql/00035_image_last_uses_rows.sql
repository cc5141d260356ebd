-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO image_last_uses (image_pk, at)
    SELECT image_pk, MAX(until_time) FROM image_presences WHERE until_time < 9223372036854775807 GROUP BY image_pk;

-- +goose Down
DELETE FROM image_last_uses;
