-- +goose NO TRANSACTION
-- +goose Up
UPDATE container_coverage SET reason = 'NotCataloged' WHERE reason = 'NotCatalogued';

-- +goose Down
UPDATE container_coverage SET reason = 'NotCatalogued' WHERE reason = 'NotCataloged';
