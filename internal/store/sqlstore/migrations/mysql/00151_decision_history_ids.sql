-- +goose NO TRANSACTION
-- +goose Up
-- The decision of a finding: all statements of a VEX source have the same kind, namespace and name.
CREATE OR REPLACE VIEW decision_history AS
    SELECT d.source, d.kind, d.namespace, d.name, d.status, d.suppresses, d.spec AS matches, d.unfixed AS expires_when_fixed,
        CASE WHEN d.justification <> '' THEN d.justification END AS justification, CASE WHEN d.comment <> '' THEN d.comment END AS comment,
        CASE WHEN d.author <> '' THEN d.author END AS author,
        DATE_FORMAT(TIMESTAMPADD(SECOND, d.since DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS since,
        CASE WHEN d.until_time < 9223372036854775807 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.until_time DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS until_time,
        CASE WHEN d.ended_by <> '' THEN d.ended_by END AS ended_by,
        CASE WHEN d.expires_at > 0 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.expires_at DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS expires_at,
        CASE WHEN d.source <> 'vex' THEN LAG(d.status) OVER (PARTITION BY d.source, d.kind, d.namespace, d.name ORDER BY d.id) END AS previous_status,
        (SELECT x.author FROM decision_deletions x WHERE x.decision_pk = d.id AND d.ended_by = 'Deleted'
            AND x.requested_at >= d.until_time - 3600000000 ORDER BY x.requested_at DESC, x.author LIMIT 1) AS deleted_by, d.id AS decision_id
    FROM decisions d;

-- +goose Down
CREATE OR REPLACE VIEW decision_history AS
    SELECT d.source, d.kind, d.namespace, d.name, d.status, d.suppresses, d.spec AS matches, d.unfixed AS expires_when_fixed,
        CASE WHEN d.justification <> '' THEN d.justification END AS justification, CASE WHEN d.comment <> '' THEN d.comment END AS comment,
        CASE WHEN d.author <> '' THEN d.author END AS author,
        DATE_FORMAT(TIMESTAMPADD(SECOND, d.since DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS since,
        CASE WHEN d.until_time < 9223372036854775807 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.until_time DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS until_time,
        CASE WHEN d.ended_by <> '' THEN d.ended_by END AS ended_by,
        CASE WHEN d.expires_at > 0 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.expires_at DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS expires_at,
        CASE WHEN d.source <> 'vex' THEN LAG(d.status) OVER (PARTITION BY d.source, d.kind, d.namespace, d.name ORDER BY d.id) END AS previous_status,
        (SELECT x.author FROM decision_deletions x WHERE x.decision_pk = d.id AND d.ended_by = 'Deleted'
            AND x.requested_at >= d.until_time - 3600000000 ORDER BY x.requested_at DESC, x.author LIMIT 1) AS deleted_by
    FROM decisions d;
