-- +goose NO TRANSACTION
-- +goose Up
-- Newer tags of images that run. tag_lookups has what is looked up for each scope, and what the last lookup found: an attempt is open while attempts is its
-- number. tag_lookup_places has the namespaces that see it. newer_tags has the tags that were chosen, and tag_images their images, which nothing runs.
-- findings is JSON, compressed with zstd, for the result set with the number result_set.
CREATE TABLE IF NOT EXISTS tag_lookups (
    id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, -- a digest of the next five
    scope VARCHAR(255) NOT NULL,
    image_id VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    platform VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    repository VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    tag VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    nonce VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
    attempts BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    unwanted_since BIGINT NOT NULL, -- 0 while the scope wants it
    looked_up_at BIGINT NOT NULL,
    source TEXT NOT NULL,
    listed BIGINT NOT NULL,
    incomplete TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    failed_reason TEXT NOT NULL,
    failed_message TEXT NOT NULL,
    for_namespace VARCHAR(253) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    INDEX tag_lookups_scope (scope),
    INDEX tag_lookups_image (image_id, platform)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE tag_lookups;
