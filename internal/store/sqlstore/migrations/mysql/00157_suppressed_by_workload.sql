-- +goose NO TRANSACTION
-- +goose Up
-- What decisions suppress in each workload, also those that apply in some places only.
CREATE VIEW suppressed_by_workload AS
    SELECT u.namespace, u.kind, u.name AS workload, o.owner,
        i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        DATE_FORMAT(TIMESTAMPADD(SECOND, GREATEST(f.opened_at, i.first_seen) DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS first_seen,
        d.status, d.justification, d.kind AS decision_kind, d.namespace AS decision_namespace, d.name AS decision_name,
        CASE WHEN d.expires_at > 0 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.expires_at DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS expires_at,
        d.id AS decision_id
    FROM (SELECT DISTINCT image_pk, namespace, kind, name FROM image_uses) u
    LEFT JOIN workload_owners o ON o.namespace = u.namespace AND o.kind = u.kind AND o.name = u.name
    JOIN images i ON i.id = u.image_pk AND i.matched_at > 0
    JOIN image_packages ip ON ip.image_pk = i.id AND ip.excluded = 0
    JOIN generations g ON g.state = 'Current'
    JOIN findings f ON f.package_pk = ip.package_pk AND f.from_gen <= g.number AND f.until_gen > g.number
    JOIN decision_findings m ON m.finding_id = f.id
    JOIN decisions d ON d.id = m.decision_pk AND d.suppresses = 1 AND d.until_time = 9223372036854775807
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    JOIN packages pk ON pk.id = f.package_pk
    WHERE d.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = d.reach AND x.image_pk = i.id)
        OR EXISTS (SELECT 1 FROM reached_namespaces y WHERE y.reach = d.reach AND y.image_pk = i.id AND y.namespace = u.namespace
            AND (y.partly = 0 OR EXISTS (SELECT 1 FROM reached_workloads w WHERE w.reach = y.reach AND w.image_pk = i.id
                AND w.namespace = u.namespace AND w.kind = u.kind AND w.name = u.name)));

-- +goose Down
DROP VIEW suppressed_by_workload;
