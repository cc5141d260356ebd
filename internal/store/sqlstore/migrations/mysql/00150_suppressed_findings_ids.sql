-- +goose NO TRANSACTION
-- +goose Up
-- The decision of a finding: all statements of a VEX source have the same kind, namespace and name.
CREATE OR REPLACE VIEW suppressed_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        DATE_FORMAT(TIMESTAMPADD(SECOND, GREATEST(f.opened_at, i.first_seen) DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS first_seen,
        d.status, d.justification, d.kind AS decision_kind, d.namespace AS decision_namespace, d.name AS decision_name,
        CASE WHEN d.expires_at > 0 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.expires_at DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS expires_at,
        d.id AS decision_id
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
CREATE OR REPLACE VIEW suppressed_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        DATE_FORMAT(TIMESTAMPADD(SECOND, GREATEST(f.opened_at, i.first_seen) DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS first_seen,
        d.status, d.justification, d.kind AS decision_kind, d.namespace AS decision_namespace, d.name AS decision_name,
        CASE WHEN d.expires_at > 0 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.expires_at DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS expires_at
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
