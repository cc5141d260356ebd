-- Where a reach with places has some of an image, but not all of its places: rows of reached_namespaces, by namespace.

-- +goose Up
CREATE TABLE reached_elsewhere (
    namespace TEXT NOT NULL,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    reach     BIGINT NOT NULL REFERENCES reaches (id) ON DELETE CASCADE,
    PRIMARY KEY (namespace, image_pk, reach)
) WITHOUT ROWID;
CREATE INDEX reached_elsewhere_image ON reached_elsewhere (image_pk, reach);
CREATE INDEX reached_elsewhere_reach ON reached_elsewhere (reach, image_pk);
INSERT INTO reached_elsewhere (namespace, image_pk, reach)
    SELECT y.namespace, y.image_pk, y.reach FROM reached_namespaces y
    WHERE NOT EXISTS (SELECT 1 FROM reached x WHERE x.reach = y.reach AND x.image_pk = y.image_pk);

-- +goose Down
DROP TABLE reached_elsewhere;
