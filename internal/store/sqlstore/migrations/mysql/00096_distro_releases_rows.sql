-- +goose NO TRANSACTION
-- +goose Up
-- The releases of distributions are looked up again.
UPDATE distro_lifecycles SET build_id = '';

-- +goose Down
SELECT 1;
