-- The decision of a finding: all statements of a VEX source have the same kind, namespace and name.

-- +goose Up
CREATE OR REPLACE VIEW suppressed_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        TO_CHAR(TO_TIMESTAMP(GREATEST(f.opened_at, i.first_seen) / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS first_seen,
        d.status, d.justification, d.kind AS decision_kind, d.namespace AS decision_namespace, d.name AS decision_name,
        CASE WHEN d.expires_at > 0 THEN TO_CHAR(TO_TIMESTAMP(d.expires_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS expires_at,
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
CREATE OR REPLACE VIEW decision_history AS
    SELECT d.source, d.kind, d.namespace, d.name, d.status, d.suppresses, d.spec AS matches, d.unfixed AS expires_when_fixed,
        CASE WHEN d.justification <> '' THEN d.justification END AS justification, CASE WHEN d.comment <> '' THEN d.comment END AS comment,
        CASE WHEN d.author <> '' THEN d.author END AS author,
        TO_CHAR(TO_TIMESTAMP(d.since / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since,
        CASE WHEN d.until_time < 9223372036854775807 THEN TO_CHAR(TO_TIMESTAMP(d.until_time / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS until_time,
        CASE WHEN d.ended_by <> '' THEN d.ended_by END AS ended_by,
        CASE WHEN d.expires_at > 0 THEN TO_CHAR(TO_TIMESTAMP(d.expires_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS expires_at,
        CASE WHEN d.source <> 'vex' THEN LAG(d.status) OVER (PARTITION BY d.source, d.kind, d.namespace, d.name ORDER BY d.id) END AS previous_status,
        (SELECT x.author FROM decision_deletions x WHERE x.decision_pk = d.id AND d.ended_by = 'Deleted'
            AND x.requested_at >= d.until_time - 3600000000 ORDER BY x.requested_at DESC, x.author LIMIT 1) AS deleted_by, d.id AS decision_id
    FROM decisions d;

-- +goose Down
DROP VIEW decision_history;
DROP VIEW suppressed_findings;
CREATE VIEW suppressed_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        TO_CHAR(TO_TIMESTAMP(GREATEST(f.opened_at, i.first_seen) / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS first_seen,
        d.status, d.justification, d.kind AS decision_kind, d.namespace AS decision_namespace, d.name AS decision_name,
        CASE WHEN d.expires_at > 0 THEN TO_CHAR(TO_TIMESTAMP(d.expires_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS expires_at
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
CREATE VIEW decision_history AS
    SELECT d.source, d.kind, d.namespace, d.name, d.status, d.suppresses, d.spec AS matches, d.unfixed AS expires_when_fixed,
        CASE WHEN d.justification <> '' THEN d.justification END AS justification, CASE WHEN d.comment <> '' THEN d.comment END AS comment,
        CASE WHEN d.author <> '' THEN d.author END AS author,
        TO_CHAR(TO_TIMESTAMP(d.since / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since,
        CASE WHEN d.until_time < 9223372036854775807 THEN TO_CHAR(TO_TIMESTAMP(d.until_time / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS until_time,
        CASE WHEN d.ended_by <> '' THEN d.ended_by END AS ended_by,
        CASE WHEN d.expires_at > 0 THEN TO_CHAR(TO_TIMESTAMP(d.expires_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS expires_at,
        CASE WHEN d.source <> 'vex' THEN LAG(d.status) OVER (PARTITION BY d.source, d.kind, d.namespace, d.name ORDER BY d.id) END AS previous_status,
        (SELECT x.author FROM decision_deletions x WHERE x.decision_pk = d.id AND d.ended_by = 'Deleted'
            AND x.requested_at >= d.until_time - 3600000000 ORDER BY x.requested_at DESC, x.author LIMIT 1) AS deleted_by
    FROM decisions d;
