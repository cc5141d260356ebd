-- +goose NO TRANSACTION
-- +goose Up
-- Namespaces are not told of what has been overdue before.
INSERT IGNORE INTO overdue_told_namespaces (namespace, image_pk, findings)
    SELECT m.namespace, o.image_pk, o.findings FROM overdue_told o JOIN image_namespaces m ON m.image_pk = o.image_pk;

-- +goose Down
DELETE FROM overdue_told_namespaces;
