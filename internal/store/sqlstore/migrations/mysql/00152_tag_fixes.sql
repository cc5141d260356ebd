-- +goose NO TRANSACTION
-- +goose Up
-- What newer tags do to the findings of images. tag_fixes has, of a lookup, the newer tag that is recommended for the image, compared in a result set: it
-- counts while that is the current one, and is 0 until a comparison that was put off. opened is what the tag opens, as JSON. The sums are those of the findings that it closes and that count for who sees
-- all namespaces. tag_closings has the findings that it closes, whatever decisions say. Rows of an earlier result set are kept, since most stay as they are.
CREATE TABLE IF NOT EXISTS tag_fixes (
    id BIGINT NOT NULL AUTO_INCREMENT,
    lookup VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
    image_pk BIGINT NOT NULL,
    result_set BIGINT NOT NULL,
    position BIGINT NOT NULL, -- of newer_tags
    opened MEDIUMTEXT NOT NULL,
    opened_risk BIGINT NOT NULL,
    opened_findings BIGINT NOT NULL,
    risk_micros BIGINT NOT NULL,
    kev BIGINT NOT NULL,
    findings BIGINT NOT NULL,
    PRIMARY KEY (id),
    INDEX tag_fixes_image (image_pk),
    FOREIGN KEY (lookup) REFERENCES tag_lookups (id) ON DELETE CASCADE,
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE tag_fixes;
