-- Who is responsible for workloads. A row remains while the workload runs something, is in the coverage or is in the history.

-- +goose Up
CREATE TABLE workload_owners (
    namespace TEXT NOT NULL,
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    owner     TEXT NOT NULL,
    PRIMARY KEY (namespace, kind, name)
) WITHOUT ROWID;
CREATE INDEX workload_owners_owner ON workload_owners (owner);

DROP VIEW image_history;
CREATE VIEW image_history AS
    SELECT i.image_id, i.platform, p.cluster, p.namespace, p.kind, p.name AS workload, p.container,
        strftime('%Y-%m-%dT%H:%M:%SZ', p.since / 1000000, 'unixepoch') AS since,
        CASE WHEN p.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', p.until_time / 1000000, 'unixepoch') END AS until_time, o.owner
    FROM image_presences p JOIN images i ON i.id = p.image_pk
    LEFT JOIN workload_owners o ON o.namespace = p.namespace AND o.kind = p.kind AND o.name = p.name;

DROP VIEW exposures;
CREATE VIEW exposures AS
    SELECT e.cluster, e.namespace, e.kind, e.workload, e.container, e.image_id, e.platform, e.package, e.version, e.vulnerability_id,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        strftime('%Y-%m-%dT%H:%M:%SZ', e.since / 1000000, 'unixepoch') AS since,
        CASE WHEN e.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', e.until_time / 1000000, 'unixepoch') END AS until_time, o.owner
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
    LEFT JOIN workload_owners o ON o.namespace = e.namespace AND o.kind = e.kind AND o.name = e.workload
    WHERE e.since < e.until_time;

-- +goose Down
DROP VIEW exposures;
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
DROP VIEW image_history;
CREATE VIEW image_history AS
    SELECT i.image_id, i.platform, p.cluster, p.namespace, p.kind, p.name AS workload, p.container,
        strftime('%Y-%m-%dT%H:%M:%SZ', p.since / 1000000, 'unixepoch') AS since,
        CASE WHEN p.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', p.until_time / 1000000, 'unixepoch') END AS until_time
    FROM image_presences p JOIN images i ON i.id = p.image_pk;
DROP TABLE workload_owners;
