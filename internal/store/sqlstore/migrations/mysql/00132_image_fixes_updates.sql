-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO image_fixes (image_pk, action, package_pk, fingerprint, waits, risk_micros, kev, findings)
    SELECT ip.image_pk, 1, pf.package_pk, pf.fingerprint, 0, SUM(v.risk_micros), SUM(v.kev), COUNT(*)
    FROM generations g JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number JOIN package_fixes pf ON pf.package_pk = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0 JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    WHERE g.state = 'Current' AND pf.divided = 1 AND pf.distro = 0 AND f.fixable = 1 AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
        AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = ip.image_pk)))
    GROUP BY ip.image_pk, pf.package_pk, pf.fingerprint;

-- +goose Down
DELETE FROM image_fixes WHERE action = 1;
