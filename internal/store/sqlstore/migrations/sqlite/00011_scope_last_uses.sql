-- Until when images ran, for each scope: every Scanner decides how long the results of its own images are kept.

-- +goose Up
-- scope is empty for scopes that do not exist any more.
CREATE TABLE scope_last_uses (
    scope    TEXT NOT NULL,
    image_pk BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    at       BIGINT NOT NULL,
    PRIMARY KEY (scope, image_pk)
);
CREATE INDEX scope_last_uses_image ON scope_last_uses (image_pk);
INSERT INTO scope_last_uses (scope, image_pk, at) SELECT '', image_pk, at FROM image_last_uses;
DROP TABLE image_last_uses;

-- +goose Down
CREATE TABLE image_last_uses (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    at       BIGINT NOT NULL
);
INSERT INTO image_last_uses (image_pk, at) SELECT image_pk, MAX(at) FROM scope_last_uses GROUP BY image_pk;
DROP TABLE scope_last_uses;
