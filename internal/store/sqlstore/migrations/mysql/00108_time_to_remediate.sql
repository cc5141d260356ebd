-- +goose NO TRANSACTION
-- +goose Up
CREATE OR REPLACE VIEW time_to_remediate AS
    SELECT e.cluster, e.namespace, o.owner,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END AS severity,
        COUNT(*) AS remediated, CAST(AVG(e.until_time - e.since) / 1000000 AS SIGNED) AS mean_seconds
    FROM (
        SELECT p.cluster, p.namespace, p.kind, p.name AS workload, MAX(v.severity) AS severity, MIN(GREATEST(p.since, f.opened_at)) AS since, MAX(LEAST(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END)) AS until_time
        FROM generations c
        JOIN findings f ON f.from_gen <= c.number
        LEFT JOIN generations u ON u.number = f.until_gen
        JOIN vulnerabilities v ON v.id = f.vulnerability_pk
        JOIN packages pk ON pk.id = f.package_pk
        JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
        JOIN image_presences p ON p.image_pk = ip.image_pk
        WHERE c.state = 'Current' AND GREATEST(p.since, f.opened_at) < LEAST(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END)
        GROUP BY p.cluster, p.namespace, p.kind, p.name, pk.type, pk.name, v.vulnerability_id
    ) e
    LEFT JOIN workload_owners o ON o.namespace = e.namespace AND o.kind = e.kind AND o.name = e.workload
    WHERE e.until_time < 9223372036854775807
    GROUP BY e.cluster, e.namespace, o.owner, e.severity;

-- +goose Down
DROP VIEW time_to_remediate;
