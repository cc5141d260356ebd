-- +goose NO TRANSACTION
-- +goose Up
CREATE OR REPLACE VIEW exposures AS
    SELECT e.cluster, e.namespace, e.kind, e.workload, e.container, e.image_id, e.platform, e.package, e.version, e.vulnerability_id,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        DATE_FORMAT(TIMESTAMPADD(SECOND, e.since DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS since,
        CASE WHEN e.until_time < 9223372036854775807 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, e.until_time DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS until_time, o.owner
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

-- +goose Down
CREATE OR REPLACE VIEW exposures AS
    SELECT e.cluster, e.namespace, e.kind, e.workload, e.container, e.image_id, e.platform, e.package, e.version, e.vulnerability_id,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        DATE_FORMAT(TIMESTAMPADD(SECOND, e.since DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS since,
        CASE WHEN e.until_time < 9223372036854775807 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, e.until_time DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS until_time
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
    WHERE e.since < e.until_time;
