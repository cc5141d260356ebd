-- What was due on each day, with the owner and the policy, and without what decisions suppress in some places only.

-- +goose Up
DROP VIEW sla_by_day;
CREATE VIEW sla_by_day AS
    SELECT TO_CHAR(TO_TIMESTAMP(e.due / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, e.cluster, e.namespace, o.owner, e.policy,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END AS severity,
        COUNT(*) AS due, SUM(CASE WHEN e.until_time <= e.due THEN 1 ELSE 0 END) AS met,
        SUM(CASE WHEN e.until_time > e.due AND e.due <= CAST(EXTRACT(EPOCH FROM NOW()) AS BIGINT) * 1000000 THEN 1 ELSE 0 END) AS missed
    FROM (
        SELECT d.cluster, d.namespace, d.kind, d.name, d.policy, d.due, MAX(d.severity) OVER (PARTITION BY d.cluster, d.namespace, d.kind, d.name, d.image_pk, d.package_pk, d.vulnerability_id) AS severity,
            MAX(d.until_time) OVER (PARTITION BY d.cluster, d.namespace, d.kind, d.name, d.image_pk, d.package_pk, d.vulnerability_id) AS until_time,
            ROW_NUMBER() OVER (PARTITION BY d.cluster, d.namespace, d.kind, d.name, d.image_pk, d.package_pk, d.vulnerability_id ORDER BY d.due, d.policy) AS place
        FROM (
            SELECT p.cluster, p.namespace, p.kind, p.name, p.image_pk, f.package_pk, v.vulnerability_id, pl.name AS policy, MAX(v.severity) AS severity,
                MIN(GREATEST(pf.since, i.first_seen) + pf.days * 86400000000) AS due, MAX(LEAST(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END)) AS until_time
            FROM generations c
            JOIN findings f ON f.from_gen <= c.number
            LEFT JOIN generations u ON u.number = f.until_gen
            JOIN policy_findings pf ON pf.finding_id = f.id AND pf.since > 0
            JOIN policies pl ON pl.id = pf.policy_pk AND pl.applies = 1
            JOIN vulnerabilities v ON v.id = f.vulnerability_pk
            JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
            JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
            JOIN image_presences p ON p.image_pk = i.id
            WHERE c.state = 'Current' AND GREATEST(p.since, f.opened_at) < LEAST(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END)
                AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
                    AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = i.id)
                        OR EXISTS (SELECT 1 FROM reached_namespaces y WHERE y.reach = fs.reach AND y.image_pk = i.id AND y.namespace = p.namespace
                            AND (y.partly = 0 OR EXISTS (SELECT 1 FROM reached_workloads w WHERE w.reach = y.reach AND w.image_pk = i.id
                                AND w.namespace = p.namespace AND w.kind = p.kind AND w.name = p.name)))))
                AND (pl.placed = 0 OR EXISTS (SELECT 1 FROM policy_places q WHERE q.policy_pk = pl.id AND q.image_pk = i.id
                    AND q.namespace = p.namespace AND q.kind = p.kind AND q.name = p.name))
            GROUP BY p.cluster, p.namespace, p.kind, p.name, p.image_pk, f.package_pk, v.vulnerability_id, pl.name
        ) d
    ) e
    LEFT JOIN workload_owners o ON o.namespace = e.namespace AND o.kind = e.kind AND o.name = e.name
    WHERE e.place = 1
    GROUP BY TO_CHAR(TO_TIMESTAMP(e.due / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD'), e.cluster, e.namespace, o.owner, e.policy, e.severity;

-- +goose Down
DROP VIEW sla_by_day;
CREATE VIEW sla_by_day AS
    SELECT TO_CHAR(TO_TIMESTAMP(e.due / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, e.cluster, e.namespace,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END AS severity,
        COUNT(*) AS due, SUM(CASE WHEN e.until_time <= e.due THEN 1 ELSE 0 END) AS met,
        SUM(CASE WHEN e.until_time > e.due AND e.due <= CAST(EXTRACT(EPOCH FROM NOW()) AS BIGINT) * 1000000 THEN 1 ELSE 0 END) AS missed
    FROM (
        SELECT p.cluster, p.namespace, MAX(v.severity) AS severity,
            MIN(GREATEST(pf.since, i.first_seen) + pf.days * 86400000000) AS due, MAX(LEAST(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END)) AS until_time
        FROM generations c
        JOIN findings f ON f.from_gen <= c.number
        LEFT JOIN generations u ON u.number = f.until_gen
        JOIN policy_findings pf ON pf.finding_id = f.id AND pf.since > 0
        JOIN policies pl ON pl.id = pf.policy_pk AND pl.applies = 1
        JOIN vulnerabilities v ON v.id = f.vulnerability_pk
        JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
        JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
        JOIN image_presences p ON p.image_pk = i.id
        WHERE c.state = 'Current' AND GREATEST(p.since, f.opened_at) < LEAST(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END)
            AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
                AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = i.id)))
            AND (pl.placed = 0 OR EXISTS (SELECT 1 FROM policy_places q WHERE q.policy_pk = pl.id AND q.image_pk = i.id
                AND q.namespace = p.namespace AND q.kind = p.kind AND q.name = p.name))
        GROUP BY p.cluster, p.namespace, p.kind, p.name, p.image_pk, f.package_pk, v.vulnerability_id
    ) e
    GROUP BY TO_CHAR(TO_TIMESTAMP(e.due / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD'), e.cluster, e.namespace, e.severity;
