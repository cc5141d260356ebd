-- Time: since when findings are open, where images ran and when, sums per day. And what finding things across images needs.

-- +goose Up
-- When, and by which generation, the vulnerability was first found in the package without a break since; both are carried over to
-- the rows of the same package_pk, vulnerability_id and namespace that take this one's place, beside it or from the generation that ends
-- it. opened_at is 0 while the generation is not current. A finding was closed when until_gen became current, unless such a row begins
-- there.
ALTER TABLE findings ADD COLUMN opened_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE findings ADD COLUMN opened_gen BIGINT NOT NULL DEFAULT 0;
CREATE TABLE finding_chains (
    id               INTEGER PRIMARY KEY,
    package_pk       BIGINT NOT NULL,
    vulnerability_id TEXT   NOT NULL,
    namespace        TEXT   NOT NULL,
    from_gen         BIGINT NOT NULL,
    until_gen        BIGINT NOT NULL
);
INSERT INTO finding_chains SELECT f.id, f.package_pk, v.vulnerability_id, v.namespace, f.from_gen, f.until_gen
    FROM findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk;
CREATE INDEX finding_chains_of ON finding_chains (package_pk, vulnerability_id, namespace, from_gen);
UPDATE findings SET opened_gen = from_gen;
UPDATE findings SET opened_gen = (
    SELECT MAX(r.from_gen) FROM finding_chains f
    JOIN finding_chains r ON r.package_pk = f.package_pk AND r.vulnerability_id = f.vulnerability_id AND r.namespace = f.namespace
        AND r.from_gen <= f.from_gen
    WHERE f.id = findings.id AND NOT EXISTS (SELECT 1 FROM finding_chains b WHERE b.package_pk = r.package_pk
        AND b.vulnerability_id = r.vulnerability_id AND b.namespace = r.namespace AND b.from_gen < r.from_gen AND b.until_gen >= r.from_gen))
    WHERE from_gen > (SELECT MIN(from_gen) FROM findings);
DROP TABLE finding_chains;
UPDATE findings SET opened_at = COALESCE((SELECT g.current_since FROM generations g WHERE g.number = findings.opened_gen), 0);
-- A generation stays for as long as a row names it.
CREATE INDEX findings_opened ON findings (opened_gen) WHERE opened_gen <> from_gen;

-- The IDs under which a vulnerability is known: its own and its aliases.
CREATE TABLE vulnerability_names (
    name             TEXT   NOT NULL,
    vulnerability_pk BIGINT NOT NULL REFERENCES vulnerabilities (id) ON DELETE CASCADE,
    PRIMARY KEY (name, vulnerability_pk)
) WITHOUT ROWID;
CREATE INDEX vulnerability_names_vulnerability ON vulnerability_names (vulnerability_pk);
INSERT INTO vulnerability_names (name, vulnerability_pk)
    SELECT v.vulnerability_id, v.id FROM vulnerabilities v
    UNION
    SELECT a.value, d.vulnerability_pk FROM vulnerability_details d, json_each(d.detail, '$.aliases') a
    WHERE length(CAST(a.value AS BLOB)) BETWEEN 1 AND 255;

CREATE INDEX packages_name ON packages (name, version, type);

-- 1 when the SBOM is a report from outside: the image is still to be catalogued when something runs it.
ALTER TABLE images ADD COLUMN from_report BIGINT NOT NULL DEFAULT 0;

-- How many attempts to catalogue the image have begun, as far as that was told.
ALTER TABLE images ADD COLUMN queued BIGINT NOT NULL DEFAULT 0;

-- Where images ran, one row for each uninterrupted time. slot is namespace/kind/name/container, or a digest of them when that is longer
-- than 255 bytes or has other slashes.
CREATE TABLE image_presences (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    image_pk   BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    slot       TEXT   NOT NULL,
    cluster    TEXT   NOT NULL,
    namespace  TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    container  TEXT   NOT NULL,
    since      BIGINT NOT NULL,
    -- 9223372036854775807 while it runs.
    until_time BIGINT NOT NULL,
    UNIQUE (image_pk, slot, since)
);
CREATE INDEX image_presences_slot ON image_presences (slot, until_time);
CREATE INDEX image_presences_until ON image_presences (until_time, image_pk);
CREATE INDEX image_presences_workload ON image_presences (namespace, name, kind, image_pk);
-- What ran before was not kept: what runs now counts from when its image was first seen. Uses of which the slot is a digest are recorded
-- anew.
DELETE FROM image_uses WHERE length(CAST(namespace || kind || name || container AS BLOB)) > 252 OR instr(namespace || kind || name || container, '/') > 0;
INSERT INTO image_presences (image_pk, slot, cluster, namespace, kind, name, container, since, until_time)
    SELECT DISTINCT u.image_pk, u.namespace || '/' || u.kind || '/' || u.name || '/' || u.container, '', u.namespace, u.kind, u.name,
        u.container, i.first_seen, 9223372036854775807
    FROM image_uses u JOIN images i ON i.id = u.image_pk;
CREATE INDEX image_uses_workload ON image_uses (namespace, name, kind, image_pk);

-- Changes of image in workloads. Images are named, not referred to: a rollout outlives them.
CREATE TABLE rollouts (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    at            BIGINT NOT NULL,
    cluster       TEXT   NOT NULL,
    namespace     TEXT   NOT NULL,
    kind          TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    container     TEXT   NOT NULL,
    from_image    TEXT   NOT NULL,
    from_platform TEXT   NOT NULL,
    to_image      TEXT   NOT NULL,
    to_platform   TEXT   NOT NULL
);
CREATE INDEX rollouts_at ON rollouts (at);
CREATE INDEX rollouts_workload ON rollouts (namespace, name);

-- How far the scans of containers are, as the Scanner controller found out. row_key is a digest of all columns that tell rows of a
-- scope apart.
CREATE TABLE container_coverage (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    scope           TEXT   NOT NULL,
    row_key         TEXT   NOT NULL,
    namespace       TEXT   NOT NULL,
    kind            TEXT   NOT NULL,
    name            TEXT   NOT NULL,
    container       TEXT   NOT NULL,
    image_id        TEXT   NOT NULL,
    platform        TEXT   NOT NULL,
    reference       TEXT   NOT NULL,
    pods            BIGINT NOT NULL,
    state           TEXT   NOT NULL,
    reason          TEXT   NOT NULL,
    message         TEXT   NOT NULL,
    next_attempt_at BIGINT NOT NULL,
    since           BIGINT NOT NULL,
    UNIQUE (scope, row_key)
);
CREATE INDEX container_coverage_workload ON container_coverage (namespace, kind, name, container);

-- Sums of a day (YYYY-MM-DD, UTC); namespace is '' for the whole cluster.
CREATE TABLE daily_sums (
    day        TEXT   NOT NULL,
    cluster    TEXT   NOT NULL,
    namespace  TEXT   NOT NULL,
    images     BIGINT NOT NULL,
    scanned    BIGINT NOT NULL,
    critical   BIGINT NOT NULL,
    high       BIGINT NOT NULL,
    medium     BIGINT NOT NULL,
    low        BIGINT NOT NULL,
    negligible BIGINT NOT NULL,
    unknown    BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    fixable    BIGINT NOT NULL,
    PRIMARY KEY (day, cluster, namespace)
) WITHOUT ROWID;

-- Up to which sequence number events have been removed.
CREATE TABLE event_floor (
    id  BIGINT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL
);
INSERT INTO event_floor (id, seq) VALUES (1, 0);

-- Views for people; docs/reference/views.md describes them. Their columns stay, more may come.
CREATE VIEW image_history AS
    SELECT i.image_id, i.platform, p.cluster, p.namespace, p.kind, p.name AS workload, p.container,
        strftime('%Y-%m-%dT%H:%M:%SZ', p.since / 1000000, 'unixepoch') AS since,
        CASE WHEN p.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', p.until_time / 1000000, 'unixepoch') END AS until_time
    FROM image_presences p JOIN images i ON i.id = p.image_pk;

-- All IDs under which a vulnerability that a finding names is known: its own and its aliases.
CREATE VIEW vulnerability_ids AS
    SELECT DISTINCT n.name, v.vulnerability_id FROM vulnerability_names n JOIN vulnerabilities v ON v.id = n.vulnerability_pk;

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

-- One row for each time that a workload ran an image while a package of it had a vulnerability.
CREATE VIEW exposures AS
    SELECT e.cluster, e.namespace, e.kind, e.workload, e.container, e.image_id, e.platform, e.package, e.version, e.vulnerability_id,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        strftime('%Y-%m-%dT%H:%M:%SZ', e.since / 1000000, 'unixepoch') AS since,
        CASE WHEN e.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', e.until_time / 1000000, 'unixepoch') END AS until_time
    FROM (
        SELECT p.cluster, p.namespace, p.kind, p.name AS workload, p.container, i.image_id, i.platform, pk.name AS package, pk.version,
            v.vulnerability_id, max(v.severity) AS severity, max(p.since, f.opened_at) AS since,
            max(min(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END)) AS until_time
        FROM generations c
        JOIN findings f ON f.from_gen <= c.number
        LEFT JOIN generations u ON u.number = f.until_gen
        JOIN vulnerabilities v ON v.id = f.vulnerability_pk
        JOIN packages pk ON pk.id = f.package_pk
        JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
        JOIN images i ON i.id = ip.image_pk
        JOIN image_presences p ON p.image_pk = i.id
        WHERE c.state = 'Current'
        GROUP BY p.id, f.package_pk, v.vulnerability_id, f.opened_at
    ) e
    WHERE e.since < e.until_time;

CREATE VIEW daily_trend AS
    SELECT day, cluster, namespace, images, scanned, critical, high, medium, low, negligible, unknown, kev, fixable FROM daily_sums;

-- +goose Down
DROP VIEW daily_trend;
DROP VIEW exposures;
DROP VIEW open_findings;
DROP VIEW vulnerability_ids;
DROP VIEW image_history;
DROP TABLE event_floor;
DROP TABLE daily_sums;
DROP TABLE container_coverage;
DROP TABLE rollouts;
DROP INDEX image_uses_workload;
DROP TABLE image_presences;
ALTER TABLE images DROP COLUMN queued;
ALTER TABLE images DROP COLUMN from_report;
DROP INDEX packages_name;
DROP TABLE vulnerability_names;
DROP INDEX findings_opened;
ALTER TABLE findings DROP COLUMN opened_gen;
ALTER TABLE findings DROP COLUMN opened_at;
