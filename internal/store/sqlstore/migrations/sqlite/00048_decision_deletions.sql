-- Users for whom the operator is about to delete the object of a decision.

-- +goose Up
CREATE TABLE decision_deletions (
    request      TEXT PRIMARY KEY, -- random
    decision_pk  BIGINT NOT NULL REFERENCES decisions (id) ON DELETE CASCADE,
    author       TEXT NOT NULL,
    requested_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX decision_deletions_decision ON decision_deletions (decision_pk);
DROP VIEW decision_history;
CREATE VIEW decision_history AS
    SELECT d.source, d.kind, d.namespace, d.name, d.status, d.suppresses, d.spec AS matches, d.unfixed AS expires_when_fixed,
        CASE WHEN d.justification <> '' THEN d.justification END AS justification, CASE WHEN d.comment <> '' THEN d.comment END AS comment,
        CASE WHEN d.author <> '' THEN d.author END AS author,
        strftime('%Y-%m-%dT%H:%M:%SZ', d.since / 1000000, 'unixepoch') AS since,
        CASE WHEN d.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', d.until_time / 1000000, 'unixepoch') END AS until_time,
        CASE WHEN d.ended_by <> '' THEN d.ended_by END AS ended_by,
        CASE WHEN d.expires_at > 0 THEN strftime('%Y-%m-%dT%H:%M:%SZ', d.expires_at / 1000000, 'unixepoch') END AS expires_at,
        CASE WHEN d.source <> 'vex' THEN LAG(d.status) OVER (PARTITION BY d.source, d.kind, d.namespace, d.name ORDER BY d.id) END AS previous_status,
        (SELECT x.author FROM decision_deletions x WHERE x.decision_pk = d.id AND d.ended_by = 'Deleted'
            AND x.requested_at >= d.until_time - 3600000000 ORDER BY x.requested_at DESC, x.author LIMIT 1) AS deleted_by
    FROM decisions d;

-- +goose Down
DROP VIEW decision_history;
CREATE VIEW decision_history AS
    SELECT d.source, d.kind, d.namespace, d.name, d.status, d.suppresses, d.spec AS matches, d.unfixed AS expires_when_fixed,
        CASE WHEN d.justification <> '' THEN d.justification END AS justification, CASE WHEN d.comment <> '' THEN d.comment END AS comment,
        CASE WHEN d.author <> '' THEN d.author END AS author,
        strftime('%Y-%m-%dT%H:%M:%SZ', d.since / 1000000, 'unixepoch') AS since,
        CASE WHEN d.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', d.until_time / 1000000, 'unixepoch') END AS until_time,
        CASE WHEN d.ended_by <> '' THEN d.ended_by END AS ended_by,
        CASE WHEN d.expires_at > 0 THEN strftime('%Y-%m-%dT%H:%M:%SZ', d.expires_at / 1000000, 'unixepoch') END AS expires_at,
        CASE WHEN d.source <> 'vex' THEN LAG(d.status) OVER (PARTITION BY d.source, d.kind, d.namespace, d.name ORDER BY d.id) END AS previous_status
    FROM decisions d;
DROP TABLE decision_deletions;
