-- What the scans of images have shown: how much memory those of a repository need, which registries want to be left alone, and until
-- when images ran.

-- +goose Up
-- class is S, M or L; a repository without a row has S.
CREATE TABLE repository_sizes (
    repository TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    class      TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE registry_holds (
    host       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    until_time BIGINT NOT NULL,
    reason     TEXT COLLATE "C" NOT NULL
);

-- When an image was last seen to run no more somewhere; presences tell more, but are not kept as long.
CREATE TABLE image_last_uses (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    at       BIGINT NOT NULL
);
INSERT INTO image_last_uses (image_pk, at)
    SELECT image_pk, MAX(until_time) FROM image_presences WHERE until_time < 9223372036854775807 GROUP BY image_pk;

-- +goose Down
DROP TABLE image_last_uses;
DROP TABLE registry_holds;
DROP TABLE repository_sizes;
