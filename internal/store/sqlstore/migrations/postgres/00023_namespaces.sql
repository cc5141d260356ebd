-- Who may see what: the namespaces that run images or are said to keep them, those that events tell something about, and those that failed
-- attempts were made for.

-- +goose Up
-- Until when images ran in a namespace, for each scope; the empty scope is that of scopes that do not exist any more. The empty namespace is that
-- of uses from before there were namespaces.
CREATE TABLE namespace_last_uses (
    scope     TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    at        BIGINT NOT NULL,
    PRIMARY KEY (scope, namespace, image_pk)
);
CREATE INDEX namespace_last_uses_image ON namespace_last_uses (image_pk);
INSERT INTO namespace_last_uses (scope, namespace, image_pk, at)
    SELECT DISTINCT l.scope, COALESCE(p.namespace, ''), l.image_pk, l.at FROM scope_last_uses l LEFT JOIN image_presences p ON p.image_pk = l.image_pk;
DROP TABLE scope_last_uses;

-- One row for each namespace that runs an image, or in which namespace_last_uses keeps it.
CREATE TABLE image_namespaces (
    namespace TEXT COLLATE "C" NOT NULL,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    since     BIGINT NOT NULL,
    PRIMARY KEY (namespace, image_pk)
);
CREATE INDEX image_namespaces_image ON image_namespaces (image_pk);
INSERT INTO image_namespaces (namespace, image_pk, since)
    SELECT n.namespace, n.image_pk, COALESCE((SELECT MIN(p.since) FROM image_presences p WHERE p.image_pk = n.image_pk AND p.namespace = n.namespace), i.first_seen)
    FROM (SELECT namespace, image_pk FROM image_uses UNION SELECT namespace, image_pk FROM namespace_last_uses) n JOIN images i ON i.id = n.image_pk
    WHERE n.namespace <> '';

CREATE TABLE event_namespaces (
    seq       BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, namespace)
);
CREATE INDEX event_namespaces_namespace ON event_namespaces (namespace, seq);

-- The namespaces of the workloads that the last failed attempts at images were made for.
CREATE TABLE image_failures (
    image_pk  BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL
);

-- The key that replicas seal tokens with, in hexadecimal.
CREATE TABLE seal_keys (
    id      BIGINT NOT NULL PRIMARY KEY,
    content TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE seal_keys;
DROP TABLE image_failures;
DROP TABLE event_namespaces;
DROP TABLE image_namespaces;
CREATE TABLE scope_last_uses (
    scope    TEXT COLLATE "C" NOT NULL,
    image_pk BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    at       BIGINT NOT NULL,
    PRIMARY KEY (scope, image_pk)
);
CREATE INDEX scope_last_uses_image ON scope_last_uses (image_pk);
INSERT INTO scope_last_uses (scope, image_pk, at) SELECT scope, image_pk, MAX(at) FROM namespace_last_uses GROUP BY scope, image_pk;
DROP TABLE namespace_last_uses;
