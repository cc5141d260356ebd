-- Decisions that suppress findings, what they match, and what follows.

-- +goose Up
-- What was decided. A change ends a row and begins another one: the rows are the history.
CREATE TABLE decisions (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    source        TEXT NOT NULL, -- 'kubernetes'
    kind          TEXT NOT NULL,
    namespace     TEXT NOT NULL,
    name          TEXT NOT NULL,
    digest        TEXT NOT NULL, -- of all that follows up to expires_at
    reach         BIGINT NOT NULL, -- 0: everywhere
    status        TEXT NOT NULL,
    suppresses    BIGINT NOT NULL, -- 1: no dry run, and a status that suppresses
    unfixed       BIGINT NOT NULL, -- 1: findings for which a fixed version is known are left out
    spec          TEXT NOT NULL, -- what it matches, as JSON
    justification TEXT NOT NULL,
    comment       TEXT NOT NULL,
    author        TEXT NOT NULL,
    expires_at    BIGINT NOT NULL, -- 0: never
    since         BIGINT NOT NULL,
    until_time    BIGINT NOT NULL, -- 9223372036854775807 while it applies
    ended_by      TEXT NOT NULL -- '', Changed, Deleted, Expired
);
CREATE INDEX decisions_applied ON decisions (until_time, expires_at);
CREATE INDEX decisions_object ON decisions (source, namespace, name, id);
-- The spellings under which decisions that apply name vulnerabilities; '' for those that name none.
CREATE TABLE decision_names (
    name        TEXT NOT NULL,
    decision_pk BIGINT NOT NULL REFERENCES decisions (id) ON DELETE CASCADE,
    PRIMARY KEY (name, decision_pk)
) WITHOUT ROWID;
CREATE INDEX decision_names_decision ON decision_names (decision_pk);
-- The findings of the live result sets that decisions which apply match, whether they suppress them or not.
CREATE TABLE decision_findings (
    finding_id  BIGINT NOT NULL REFERENCES findings (id) ON DELETE CASCADE,
    decision_pk BIGINT NOT NULL REFERENCES decisions (id) ON DELETE CASCADE,
    PRIMARY KEY (finding_id, decision_pk)
) WITHOUT ROWID;
CREATE INDEX decision_findings_decision ON decision_findings (decision_pk, finding_id);
-- What follows: a finding is suppressed wherever the reach is.
CREATE TABLE finding_suppressions (
    finding_id BIGINT NOT NULL REFERENCES findings (id) ON DELETE CASCADE,
    reach      BIGINT NOT NULL,
    PRIMARY KEY (finding_id, reach)
) WITHOUT ROWID;
CREATE INDEX finding_suppressions_reach ON finding_suppressions (reach, finding_id);
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
    WHERE g.state = 'Current';
DROP TABLE finding_suppressions;
DROP TABLE decision_findings;
DROP TABLE decision_names;
DROP TABLE decisions;
