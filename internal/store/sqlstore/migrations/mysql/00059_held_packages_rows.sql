-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO held_packages (package_pk, fingerprint, level, critical, high, medium, low, negligible, unknown, kev, fixable)
    SELECT p.id, p.fingerprint, m.level, COALESCE(c.critical, 0), COALESCE(c.high, 0), COALESCE(c.medium, 0), COALESCE(c.low, 0), COALESCE(c.negligible, 0),
        COALESCE(c.unknown, 0), COALESCE(c.kev, 0), COALESCE(c.fixable, 0)
    FROM packages p JOIN (
        SELECT ip.package_pk, MAX(CASE WHEN ip.excluded = 1 THEN 1 WHEN i.matched_at = 0 THEN 2 ELSE 3 END) AS level
        FROM image_packages ip JOIN images i ON i.id = ip.image_pk GROUP BY ip.package_pk
    ) m ON m.package_pk = p.id LEFT JOIN (
        SELECT f.package_pk, SUM(CASE WHEN v.severity = 5 THEN 1 ELSE 0 END) AS critical, SUM(CASE WHEN v.severity = 4 THEN 1 ELSE 0 END) AS high,
            SUM(CASE WHEN v.severity = 3 THEN 1 ELSE 0 END) AS medium, SUM(CASE WHEN v.severity = 2 THEN 1 ELSE 0 END) AS low,
            SUM(CASE WHEN v.severity = 1 THEN 1 ELSE 0 END) AS negligible, SUM(CASE WHEN v.severity = 0 THEN 1 ELSE 0 END) AS unknown,
            SUM(v.kev) AS kev, SUM(f.fixable) AS fixable
        FROM generations g JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number JOIN vulnerabilities v ON v.id = f.vulnerability_pk
        WHERE g.state = 'Current' GROUP BY f.package_pk
    ) c ON c.package_pk = p.id AND m.level >= 2;

-- +goose Down
DELETE FROM held_packages;
