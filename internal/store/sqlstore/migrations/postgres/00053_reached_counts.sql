-- How many findings a reach with places suppresses in a matched image of which it has any place, without those that something else suppresses in the whole image.
-- There are no rows without counts.

-- +goose Up
CREATE TABLE reached_counts (
    reach      BIGINT NOT NULL REFERENCES reaches (id) ON DELETE CASCADE,
    image_pk   BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    critical   BIGINT NOT NULL,
    high       BIGINT NOT NULL,
    medium     BIGINT NOT NULL,
    low        BIGINT NOT NULL,
    negligible BIGINT NOT NULL,
    unknown    BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    fixable    BIGINT NOT NULL,
    PRIMARY KEY (reach, image_pk)
);
CREATE INDEX reached_counts_image ON reached_counts (image_pk, reach);
INSERT INTO reached_counts (reach, image_pk, critical, high, medium, low, negligible, unknown, kev, fixable)
    SELECT y.reach, y.image_pk, SUM(CASE WHEN v.severity = 5 THEN 1 ELSE 0 END),
        SUM(CASE WHEN v.severity = 4 THEN 1 ELSE 0 END),
        SUM(CASE WHEN v.severity = 3 THEN 1 ELSE 0 END),
        SUM(CASE WHEN v.severity = 2 THEN 1 ELSE 0 END),
        SUM(CASE WHEN v.severity = 1 THEN 1 ELSE 0 END),
        SUM(CASE WHEN v.severity = 0 THEN 1 ELSE 0 END), SUM(v.kev), SUM(f.fixable)
    FROM (SELECT DISTINCT reach, image_pk FROM reached_namespaces) y
    JOIN finding_suppressions hs ON hs.reach = y.reach
    JOIN findings f ON f.id = hs.finding_id
    JOIN generations g ON g.state = 'Current' AND f.from_gen <= g.number AND f.until_gen > g.number
    JOIN image_packages ip ON ip.image_pk = y.image_pk AND ip.package_pk = f.package_pk AND ip.excluded = 0
    JOIN images k ON k.id = y.image_pk AND k.matched_at > 0
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    WHERE NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
        AND fs.reach <> y.reach AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = y.image_pk)))
    GROUP BY y.reach, y.image_pk;

-- +goose Down
DROP TABLE reached_counts;
