-- Events also tell each namespace of the findings that are overdue there.

-- +goose Up
-- The findings of an image that events told a namespace of: a number of 8 bytes for each vulnerability of a package.
CREATE TABLE overdue_told_namespaces (
    namespace TEXT   NOT NULL,
    image_pk  BIGINT NOT NULL,
    findings  BLOB   NOT NULL,
    PRIMARY KEY (namespace, image_pk),
    FOREIGN KEY (namespace, image_pk) REFERENCES image_namespaces (namespace, image_pk) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX overdue_told_namespaces_image ON overdue_told_namespaces (image_pk);
-- Namespaces are not told of what has been overdue before.
INSERT INTO overdue_told_namespaces (namespace, image_pk, findings)
    SELECT m.namespace, o.image_pk, o.findings FROM overdue_told o JOIN image_namespaces m ON m.image_pk = o.image_pk;

-- +goose Down
DROP TABLE overdue_told_namespaces;
