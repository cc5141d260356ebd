-- +goose NO TRANSACTION
-- +goose Up
-- Of more changes, a text could be longer than a server of MySQL permits. With the lock, the rows that it reads are those of the moment of the insert at any isolation level.
INSERT INTO change_packages (generation, severity, kev, kind, newly_kev, partly, changes, packages)
    SELECT c.generation, c.severity, c.kev, c.kind, CASE WHEN c.kev = 1 AND (c.kind = 0 OR c.kind = 2 AND c.reasons LIKE '%kev%') THEN 1 ELSE 0 END AS newly_kev,
        CASE WHEN cv.change_id IS NULL THEN 0 ELSE 1 END AS partly, COUNT(*), COALESCE(GROUP_CONCAT(CASE WHEN cv.change_id IS NULL THEN c.package_pk END), '')
    FROM finding_changes c JOIN generations g ON g.number = c.generation LEFT JOIN change_variants cv ON cv.change_id = c.id
    WHERE g.current_since > 0 AND g.opened + g.closed + g.changed <= 100000 GROUP BY c.generation, c.severity, c.kev, c.kind, newly_kev, partly LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE generation = change_packages.generation;

-- +goose Down
DELETE FROM change_packages;
