-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO image_namespaces (namespace, image_pk, since)
    SELECT n.namespace, n.image_pk, COALESCE((SELECT MIN(p.since) FROM image_presences p WHERE p.image_pk = n.image_pk AND p.namespace = n.namespace), i.first_seen)
    FROM (SELECT CONVERT(namespace USING utf8mb4) AS namespace, image_pk FROM image_uses UNION SELECT namespace, image_pk FROM namespace_last_uses) n
    JOIN images i ON i.id = n.image_pk WHERE n.namespace <> '';

-- +goose Down
DELETE FROM image_namespaces;
