-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO namespace_last_uses (scope, namespace, image_pk, at)
    SELECT DISTINCT l.scope, COALESCE(p.namespace, ''), l.image_pk, l.at FROM scope_last_uses l LEFT JOIN image_presences p ON p.image_pk = l.image_pk;

-- +goose Down
INSERT IGNORE INTO scope_last_uses (scope, image_pk, at) SELECT scope, image_pk, MAX(at) FROM namespace_last_uses GROUP BY scope, image_pk;
