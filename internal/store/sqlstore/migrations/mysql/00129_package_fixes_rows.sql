-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO package_fixes (package_pk, fingerprint, distro, divided, fix_risk, fix_kev, fix_findings, rest_risk, rest_kev, rest_findings)
    SELECT s.package_pk, s.fingerprint, s.distro, s.divided, s.whole * s.fix_risk, s.whole * s.fix_kev, s.whole * s.fix_findings, s.whole * s.rest_risk,
        s.whole * s.rest_kev, s.whole * s.rest_findings
    FROM (SELECT d.*, 1 - d.divided AS whole FROM (SELECT h.package_pk, h.fingerprint, CASE WHEN p.type IN ('alpm', 'apk', 'deb', 'portage', 'rpm') THEN 1 ELSE 0 END AS distro,
            MAX(CASE WHEN EXISTS (SELECT 1 FROM finding_suppressions fd WHERE fd.finding_id = f.id AND fd.reach > 0) THEN 1 ELSE 0 END) AS divided,
            SUM(CASE WHEN f.fixable = 1 THEN v.risk_micros ELSE 0 END) AS fix_risk, SUM(CASE WHEN f.fixable = 1 THEN v.kev ELSE 0 END) AS fix_kev,
            SUM(f.fixable) AS fix_findings, SUM(CASE WHEN f.fixable = 1 THEN 0 ELSE v.risk_micros END) AS rest_risk,
            SUM(CASE WHEN f.fixable = 1 THEN 0 ELSE v.kev END) AS rest_kev, SUM(1 - f.fixable) AS rest_findings
        FROM generations g JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number JOIN held_packages h ON h.package_pk = f.package_pk
        JOIN packages p ON p.id = f.package_pk JOIN vulnerabilities v ON v.id = f.vulnerability_pk
        WHERE g.state = 'Current' AND h.level = 3 AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND fs.reach = 0)
        GROUP BY h.package_pk, h.fingerprint, p.type) d) s;

-- +goose Down
DELETE FROM package_fixes;
