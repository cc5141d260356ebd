-- Decisions about some images.

-- +goose Up
-- Where decisions that apply suppress findings, one row for each distinct place. Other rows may refer to one that is gone.
CREATE TABLE reaches (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL UNIQUE, -- of spec
    spec   TEXT NOT NULL -- JSON
);
-- The images that a reach has.
CREATE TABLE reached (
    reach    BIGINT NOT NULL REFERENCES reaches (id) ON DELETE CASCADE,
    image_pk BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    PRIMARY KEY (reach, image_pk)
) WITHOUT ROWID;
CREATE INDEX reached_image ON reached (image_pk, reach);
-- Changes that are not about all images that hold the package, with a digest of their content, and the images that they are about.
CREATE TABLE change_variants (
    change_id BIGINT NOT NULL PRIMARY KEY REFERENCES finding_changes (id) ON DELETE CASCADE,
    variant   TEXT NOT NULL
);
CREATE TABLE change_images (
    change_id BIGINT NOT NULL REFERENCES change_variants (change_id) ON DELETE CASCADE,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    PRIMARY KEY (change_id, image_pk)
) WITHOUT ROWID;
CREATE INDEX change_images_image ON change_images (image_pk);
DROP VIEW suppressed_findings;
DROP VIEW open_findings;
CREATE VIEW open_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        strftime('%Y-%m-%dT%H:%M:%SZ', max(f.opened_at, i.first_seen) / 1000000, 'unixepoch') AS first_seen
    FROM generations g
    JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    JOIN packages pk ON pk.id = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
    JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    WHERE g.state = 'Current'
        AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
            AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = i.id)));
CREATE VIEW suppressed_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        strftime('%Y-%m-%dT%H:%M:%SZ', max(f.opened_at, i.first_seen) / 1000000, 'unixepoch') AS first_seen,
        d.status, d.justification, d.kind AS decision_kind, d.namespace AS decision_namespace, d.name AS decision_name,
        CASE WHEN d.expires_at > 0 THEN strftime('%Y-%m-%dT%H:%M:%SZ', d.expires_at / 1000000, 'unixepoch') END AS expires_at
    FROM generations g
    JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    JOIN packages pk ON pk.id = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
    JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    JOIN decision_findings m ON m.finding_id = f.id
    JOIN decisions d ON d.id = m.decision_pk AND d.suppresses = 1 AND d.until_time = 9223372036854775807
    WHERE g.state = 'Current'
        AND (d.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = d.reach AND x.image_pk = i.id));

-- +goose Down
DROP VIEW suppressed_findings;
DROP VIEW open_findings;
CREATE VIEW open_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        strftime('%Y-%m-%dT%H:%M:%SZ', max(f.opened_at, i.first_seen) / 1000000, 'unixepoch') AS first_seen
    FROM generations g
    JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    JOIN packages pk ON pk.id = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
    JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    WHERE g.state = 'Current'
        AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND fs.reach = 0);
CREATE VIEW suppressed_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        strftime('%Y-%m-%dT%H:%M:%SZ', max(f.opened_at, i.first_seen) / 1000000, 'unixepoch') AS first_seen,
        d.status, d.justification, d.kind AS decision_kind, d.namespace AS decision_namespace, d.name AS decision_name,
        CASE WHEN d.expires_at > 0 THEN strftime('%Y-%m-%dT%H:%M:%SZ', d.expires_at / 1000000, 'unixepoch') END AS expires_at
    FROM generations g
    JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    JOIN packages pk ON pk.id = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
    JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    JOIN decision_findings m ON m.finding_id = f.id
    JOIN decisions d ON d.id = m.decision_pk AND d.suppresses = 1 AND d.until_time = 9223372036854775807
    WHERE g.state = 'Current';
DROP TABLE change_images;
DROP TABLE change_variants;
DROP TABLE reached;
DROP TABLE reaches;
