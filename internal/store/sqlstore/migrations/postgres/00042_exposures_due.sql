-- Until when an exposure is due.

-- +goose Up
DROP VIEW exposures;
CREATE VIEW exposures AS
    SELECT e.cluster, e.namespace, e.kind, e.workload, e.container, e.image_id, e.platform, e.package, e.version, e.vulnerability_id,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        TO_CHAR(TO_TIMESTAMP(e.since / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since,
        CASE WHEN e.until_time < 9223372036854775807 THEN TO_CHAR(TO_TIMESTAMP(e.until_time / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS until_time, o.owner,
        TO_CHAR(TO_TIMESTAMP(e.due_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS due_at, CASE WHEN e.due_at <= CAST(EXTRACT(EPOCH FROM NOW()) AS BIGINT) * 1000000 THEN 1 ELSE 0 END AS overdue
    FROM (
        SELECT p.cluster, p.namespace, p.kind, p.name AS workload, p.container, i.image_id, i.platform, pk.name AS package, pk.version,
            v.vulnerability_id, MAX(v.severity) AS severity, GREATEST(p.since, f.opened_at) AS since,
            MAX(LEAST(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END))
                AS until_time,
            MIN(CASE WHEN pl.applies = 1 AND i.matched_at > 0
                AND (pl.placed = 0 OR EXISTS (SELECT 1 FROM policy_places q WHERE q.policy_pk = pl.id AND q.image_pk = i.id
                    AND q.namespace = p.namespace AND q.kind = p.kind AND q.name = p.name))
                AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
                    AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = i.id)
                        OR EXISTS (SELECT 1 FROM reached_namespaces y WHERE y.reach = fs.reach AND y.image_pk = i.id AND y.namespace = p.namespace
                            AND (y.partly = 0 OR EXISTS (SELECT 1 FROM reached_workloads w WHERE w.reach = y.reach AND w.image_pk = i.id
                                AND w.namespace = p.namespace AND w.kind = p.kind AND w.name = p.name)))))
                THEN GREATEST(pf.since, i.first_seen) + pf.days * 86400000000 END) AS due_at
        FROM generations c
        JOIN findings f ON f.from_gen <= c.number
        LEFT JOIN generations u ON u.number = f.until_gen
        JOIN vulnerabilities v ON v.id = f.vulnerability_pk
        JOIN packages pk ON pk.id = f.package_pk
        JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
        JOIN images i ON i.id = ip.image_pk
        JOIN image_presences p ON p.image_pk = i.id
        LEFT JOIN policy_findings pf ON pf.finding_id = f.id AND pf.since > 0 AND f.until_gen > c.number AND p.until_time = 9223372036854775807
        LEFT JOIN policies pl ON pl.id = pf.policy_pk
        WHERE c.state = 'Current'
        GROUP BY p.id, p.cluster, p.namespace, p.kind, p.name, p.container, p.since, i.image_id, i.platform, f.package_pk, pk.name,
            pk.version, v.vulnerability_id, f.opened_at
    ) e
    LEFT JOIN workload_owners o ON o.namespace = e.namespace AND o.kind = e.kind AND o.name = e.workload
    WHERE e.since < e.until_time;

-- +goose Down
DROP VIEW exposures;
CREATE VIEW exposures AS
    SELECT e.cluster, e.namespace, e.kind, e.workload, e.container, e.image_id, e.platform, e.package, e.version, e.vulnerability_id,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        TO_CHAR(TO_TIMESTAMP(e.since / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since,
        CASE WHEN e.until_time < 9223372036854775807 THEN TO_CHAR(TO_TIMESTAMP(e.until_time / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS until_time, o.owner
    FROM (
        SELECT p.cluster, p.namespace, p.kind, p.name AS workload, p.container, i.image_id, i.platform, pk.name AS package, pk.version,
            v.vulnerability_id, MAX(v.severity) AS severity, GREATEST(p.since, f.opened_at) AS since,
            MAX(LEAST(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END))
                AS until_time
        FROM generations c
        JOIN findings f ON f.from_gen <= c.number
        LEFT JOIN generations u ON u.number = f.until_gen
        JOIN vulnerabilities v ON v.id = f.vulnerability_pk
        JOIN packages pk ON pk.id = f.package_pk
        JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
        JOIN images i ON i.id = ip.image_pk
        JOIN image_presences p ON p.image_pk = i.id
        WHERE c.state = 'Current'
        GROUP BY p.id, p.cluster, p.namespace, p.kind, p.name, p.container, p.since, i.image_id, i.platform, f.package_pk, pk.name,
            pk.version, v.vulnerability_id, f.opened_at
    ) e
    LEFT JOIN workload_owners o ON o.namespace = e.namespace AND o.kind = e.kind AND o.name = e.workload
    WHERE e.since < e.until_time;
