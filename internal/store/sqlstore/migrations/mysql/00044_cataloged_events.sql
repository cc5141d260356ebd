-- +goose NO TRANSACTION
-- +goose Up
UPDATE events SET kind = 'image.cataloged' WHERE kind = 'image.catalogued';

-- +goose Down
UPDATE events SET kind = 'image.catalogued' WHERE kind = 'image.cataloged';
