-- Newer tags of images that run. tag_lookups has what is looked up for each scope, and what the last lookup found: an attempt is open while attempts is its
-- number. tag_lookup_places has the namespaces that see it. newer_tags has the tags that were chosen, and tag_images their images, which nothing runs.
-- findings is JSON, compressed with zstd, for the result set with the number result_set.

-- +goose Up
CREATE TABLE tag_lookups (
    id             TEXT PRIMARY KEY, -- a digest of the next five
    scope          TEXT NOT NULL,
    image_id       TEXT NOT NULL,
    platform       TEXT NOT NULL,
    repository     TEXT NOT NULL,
    tag            TEXT NOT NULL,
    nonce          TEXT NOT NULL UNIQUE,
    attempts       BIGINT NOT NULL,
    failures       BIGINT NOT NULL,
    next_at        BIGINT NOT NULL,
    unwanted_since BIGINT NOT NULL, -- 0 while the scope wants it
    looked_up_at   BIGINT NOT NULL,
    source         TEXT NOT NULL,
    listed         BIGINT NOT NULL,
    incomplete     TEXT NOT NULL,
    reason         TEXT NOT NULL,
    message        TEXT NOT NULL,
    failed_reason  TEXT NOT NULL,
    failed_message TEXT NOT NULL,
    for_namespace  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX tag_lookups_scope ON tag_lookups (scope);
CREATE INDEX tag_lookups_image ON tag_lookups (image_id, platform);
CREATE TABLE tag_lookup_places (
    lookup    TEXT NOT NULL REFERENCES tag_lookups (id) ON DELETE CASCADE,
    namespace TEXT NOT NULL,
    PRIMARY KEY (lookup, namespace)
) WITHOUT ROWID;
CREATE TABLE tag_images (
    id          TEXT PRIMARY KEY, -- a digest of the next five
    scope       TEXT NOT NULL,
    scanned_in  TEXT NOT NULL, -- the namespace of the Job
    repository  TEXT NOT NULL,
    platform    TEXT NOT NULL,
    digest      TEXT NOT NULL,
    cataloger   TEXT NOT NULL,
    media_type  TEXT NOT NULL,
    sbom_sha256 TEXT NOT NULL,
    sbom_size   BIGINT NOT NULL,
    saved_at    BIGINT NOT NULL,
    result_set  BIGINT NOT NULL, -- 0 before it is matched
    build       TEXT NOT NULL,
    findings    BLOB NOT NULL,
    problem     TEXT NOT NULL
);
CREATE INDEX tag_images_scope ON tag_images (scope, repository, platform);
CREATE INDEX tag_images_result_set ON tag_images (result_set);
CREATE TABLE tag_image_parts (
    image   TEXT NOT NULL REFERENCES tag_images (id) ON DELETE CASCADE,
    part    BIGINT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (image, part)
);
CREATE TABLE newer_tags (
    lookup   TEXT NOT NULL REFERENCES tag_lookups (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    tag      TEXT NOT NULL,
    kind     TEXT NOT NULL,
    digest   TEXT NOT NULL,
    problem  TEXT NOT NULL,
    image    TEXT NOT NULL, -- of tag_images, '' for none
    PRIMARY KEY (lookup, position)
) WITHOUT ROWID;
CREATE INDEX newer_tags_image ON newer_tags (image);

-- +goose Down
DROP TABLE newer_tags;
DROP TABLE tag_image_parts;
DROP TABLE tag_images;
DROP TABLE tag_lookup_places;
DROP TABLE tag_lookups;
