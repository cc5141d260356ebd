-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO reached_elsewhere (namespace, image_pk, reach)
    SELECT y.namespace, y.image_pk, y.reach FROM reached_namespaces y
    WHERE NOT EXISTS (SELECT 1 FROM reached x WHERE x.reach = y.reach AND x.image_pk = y.image_pk);

-- +goose Down
DELETE FROM reached_elsewhere;
