-- +goose NO TRANSACTION
-- +goose Up
UPDATE images SET state = 'Cataloged' WHERE state = 'Catalogued';

-- +goose Down
UPDATE images SET state = 'Catalogued' WHERE state = 'Cataloged';
