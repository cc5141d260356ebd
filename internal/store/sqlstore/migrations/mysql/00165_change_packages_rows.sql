-- +goose NO TRANSACTION
-- +goose Up
-- With the lock, the rows that it reads are those of the moment of the insert at any isolation level.
INSERT INTO change_packages (generation, severity, kev, kind, newly_kev, changes, packages)
    SELECT c.generation, c.severity, c.kev, c.kind, CASE WHEN c.kev = 1 AND (c.kind = 0 OR c.kind = 2 AND c.reasons LIKE '%kev%') THEN 1 ELSE 0 END AS newly_kev,
        COUNT(*), GROUP_CONCAT(c.package_pk)
    FROM finding_changes c JOIN generations g ON g.number = c.generation
    WHERE g.current_since > 0 AND g.opened + g.closed + g.changed <= 500000 GROUP BY c.generation, c.severity, c.kev, c.kind, newly_kev LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE generation = change_packages.generation;

-- +goose Down
DELETE FROM change_packages;
