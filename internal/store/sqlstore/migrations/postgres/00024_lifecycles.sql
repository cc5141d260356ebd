-- Until when the distributions of images are maintained, and when images were created.

-- +goose Up
-- What the database build says of a distribution, as images.distro names it; 0 for a date that it does not state.
CREATE TABLE distro_lifecycles (
    distro         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    build_id       TEXT COLLATE "C" NOT NULL,
    end_of_life    BIGINT NOT NULL,
    end_of_support BIGINT NOT NULL
);

-- When images were created, if their SBOMs state it.
CREATE TABLE sbom_creations (
    image_pk   BIGINT NOT NULL PRIMARY KEY REFERENCES sboms (image_pk) ON DELETE CASCADE,
    created_at BIGINT NOT NULL
);

CREATE VIEW image_lifecycles AS
    SELECT i.image_id, i.platform, i.distro,
        CASE WHEN d.end_of_support > 0 THEN TO_CHAR(TO_TIMESTAMP(d.end_of_support / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS end_of_support,
        CASE WHEN d.end_of_life > 0 THEN TO_CHAR(TO_TIMESTAMP(d.end_of_life / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS end_of_life,
        CASE WHEN a.created_at > 0 THEN TO_CHAR(TO_TIMESTAMP(a.created_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS created
    FROM images i LEFT JOIN distro_lifecycles d ON d.distro = i.distro LEFT JOIN sbom_creations a ON a.image_pk = i.id
    WHERE i.sbom_sha256 <> '';

-- +goose Down
DROP VIEW image_lifecycles;
DROP TABLE sbom_creations;
DROP TABLE distro_lifecycles;
