-- Which release of a distribution the database build means by the name that an image has.

-- +goose Up
CREATE TABLE distro_releases (
    distro       TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES distro_lifecycles (distro) ON DELETE CASCADE,
    release_name TEXT COLLATE "C" NOT NULL -- 'rhel:9', also for the distribution 'rhel:9.4'
);
-- They are looked up again.
UPDATE distro_lifecycles SET build_id = '';

-- +goose Down
DROP TABLE distro_releases;
