-- +goose Up
UPDATE images SET state = 'Cataloged' WHERE state = 'Catalogued';
UPDATE container_coverage SET reason = 'NotCataloged' WHERE reason = 'NotCatalogued';
UPDATE events SET kind = 'image.cataloged' WHERE kind = 'image.catalogued';

-- +goose Down
UPDATE events SET kind = 'image.catalogued' WHERE kind = 'image.cataloged';
UPDATE container_coverage SET reason = 'NotCatalogued' WHERE reason = 'NotCataloged';
UPDATE images SET state = 'Catalogued' WHERE state = 'Cataloged';
