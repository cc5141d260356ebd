-- Newer tags of images that run. tag_lookups has what is looked up for each scope, and what the last lookup found: an attempt is open while attempts is its
-- number. tag_lookup_places has the namespaces that see it. newer_tags has the tags that were chosen, and tag_images their images, which nothing runs.
-- findings is JSON, compressed with zstd, for the result set with the number result_set.

-- +goose Up
CREATE TABLE tag_lookups (
    id             TEXT COLLATE "C" PRIMARY KEY, -- a digest of the next five
    scope          TEXT COLLATE "C" NOT NULL,
    image_id       TEXT COLLATE "C" NOT NULL,
    platform       TEXT COLLATE "C" NOT NULL,
    repository     TEXT COLLATE "C" NOT NULL,
    tag            TEXT COLLATE "C" NOT NULL,
    nonce          TEXT COLLATE "C" NOT NULL UNIQUE,
    attempts       BIGINT NOT NULL,
    failures       BIGINT NOT NULL,
    next_at        BIGINT NOT NULL,
    unwanted_since BIGINT NOT NULL, -- 0 while the scope wants it
    looked_up_at   BIGINT NOT NULL,
    source         TEXT COLLATE "C" NOT NULL,
    listed         BIGINT NOT NULL,
    incomplete     TEXT COLLATE "C" NOT NULL,
    reason         TEXT COLLATE "C" NOT NULL,
    message        TEXT COLLATE "C" NOT NULL,
    failed_reason  TEXT COLLATE "C" NOT NULL,
    failed_message TEXT COLLATE "C" NOT NULL,
    for_namespace  TEXT COLLATE "C" NOT NULL
);
CREATE INDEX tag_lookups_scope ON tag_lookups (scope);
CREATE INDEX tag_lookups_image ON tag_lookups (image_id, platform);
CREATE TABLE tag_lookup_places (
    lookup    TEXT COLLATE "C" NOT NULL REFERENCES tag_lookups (id) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (lookup, namespace)
);
CREATE TABLE tag_images (
    id          TEXT COLLATE "C" PRIMARY KEY, -- a digest of the next five
    scope       TEXT COLLATE "C" NOT NULL,
    scanned_in  TEXT COLLATE "C" NOT NULL, -- the namespace of the Job
    repository  TEXT COLLATE "C" NOT NULL,
    platform    TEXT COLLATE "C" NOT NULL,
    digest      TEXT COLLATE "C" NOT NULL,
    cataloger   TEXT COLLATE "C" NOT NULL,
    media_type  TEXT COLLATE "C" NOT NULL,
    sbom_sha256 TEXT COLLATE "C" NOT NULL,
    sbom_size   BIGINT NOT NULL,
    saved_at    BIGINT NOT NULL,
    result_set  BIGINT NOT NULL, -- 0 before it is matched
    build       TEXT COLLATE "C" NOT NULL,
    findings    BYTEA NOT NULL,
    problem     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX tag_images_scope ON tag_images (scope, repository, platform);
CREATE INDEX tag_images_result_set ON tag_images (result_set);
CREATE TABLE tag_image_parts (
    image   TEXT COLLATE "C" NOT NULL REFERENCES tag_images (id) ON DELETE CASCADE,
    part    BIGINT NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (image, part)
);
CREATE TABLE newer_tags (
    lookup   TEXT COLLATE "C" NOT NULL REFERENCES tag_lookups (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    tag      TEXT COLLATE "C" NOT NULL,
    kind     TEXT COLLATE "C" NOT NULL,
    digest   TEXT COLLATE "C" NOT NULL,
    problem  TEXT COLLATE "C" NOT NULL,
    image    TEXT COLLATE "C" NOT NULL, -- of tag_images, '' for none
    PRIMARY KEY (lookup, position)
);
CREATE INDEX newer_tags_image ON newer_tags (image);

-- +goose Down
DROP TABLE newer_tags;
DROP TABLE tag_image_parts;
DROP TABLE tag_images;
DROP TABLE tag_lookup_places;
DROP TABLE tag_lookups;
