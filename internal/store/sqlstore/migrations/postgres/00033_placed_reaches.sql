-- Decisions about some places.

-- +goose Up
-- The reaches that have places: of decisions about some places, or of several such decisions together. members are the numbers of these, separated by
-- commas, or '' for the reach of a decision. digest is that of the places.
CREATE TABLE placed_reaches (
    reach   BIGINT NOT NULL REFERENCES reaches (id) ON DELETE CASCADE,
    members TEXT COLLATE "C" NOT NULL,
    digest  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (reach)
);
-- The places of the reaches of decisions: workloads, or a whole namespace with no kind and no name.
CREATE TABLE reach_places (
    reach     BIGINT NOT NULL REFERENCES reaches (id) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (reach, namespace, kind, name)
);
CREATE INDEX reach_places_namespace ON reach_places (namespace, reach);
-- The images that a reach with places has in a namespace where they are visible. partly says that it has not all of the workloads that run the
-- image there.
CREATE TABLE reached_namespaces (
    reach     BIGINT NOT NULL REFERENCES reaches (id) ON DELETE CASCADE,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL,
    partly    BIGINT NOT NULL,
    PRIMARY KEY (reach, image_pk, namespace)
);
CREATE INDEX reached_namespaces_image ON reached_namespaces (image_pk, namespace, reach);
-- The workloads that it has there if these are not all.
CREATE TABLE reached_workloads (
    reach     BIGINT NOT NULL REFERENCES reaches (id) ON DELETE CASCADE,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (reach, image_pk, namespace, kind, name)
);
CREATE INDEX reached_workloads_image ON reached_workloads (image_pk, reach);

-- +goose Down
DROP TABLE reached_workloads;
DROP TABLE reached_namespaces;
DROP TABLE reach_places;
DROP TABLE placed_reaches;
