-- What newer tags do to the findings of images. tag_fixes has, of a lookup, the newer tag that is recommended for the image, compared in a result set: it
-- counts while that is the current one, and is 0 until a comparison that was put off. opened is what the tag opens, as JSON. The sums are those of the findings that it closes and that count for who sees
-- all namespaces. tag_closings has the findings that it closes, whatever decisions say. Rows of an earlier result set are kept, since most stay as they are.

-- +goose Up
CREATE TABLE tag_fixes (
    id              BIGSERIAL PRIMARY KEY,
    lookup          TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES tag_lookups (id) ON DELETE CASCADE,
    image_pk        BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    result_set      BIGINT NOT NULL,
    position        BIGINT NOT NULL, -- of newer_tags
    opened          TEXT COLLATE "C" NOT NULL,
    opened_risk     BIGINT NOT NULL,
    opened_findings BIGINT NOT NULL,
    risk_micros     BIGINT NOT NULL,
    kev             BIGINT NOT NULL,
    findings        BIGINT NOT NULL
);
CREATE INDEX tag_fixes_image ON tag_fixes (image_pk);
CREATE TABLE tag_closings (
    fix_pk     BIGINT NOT NULL REFERENCES tag_fixes (id) ON DELETE CASCADE,
    finding_id BIGINT NOT NULL,
    package_pk BIGINT NOT NULL, -- that of the finding
    PRIMARY KEY (fix_pk, finding_id)
);
CREATE INDEX tag_closings_package ON tag_closings (package_pk, fix_pk);

-- +goose Down
DROP TABLE tag_closings;
DROP TABLE tag_fixes;
