-- What the list of fixes is ordered by. package_fixes has the packages of matched images with findings: the sums of those that a fix closes, and of the
-- others; divided is 1 if some count in some images only, then there are no sums. image_fixes has, of each matched image, the number of updates of packages
-- that are not divided (action 0), the updates of those that are (1), a rebuild (2), and the findings without a fix (3).

-- +goose Up
CREATE TABLE package_fixes (
    package_pk    BIGINT NOT NULL PRIMARY KEY REFERENCES packages (id) ON DELETE CASCADE,
    fingerprint   TEXT NOT NULL,
    distro        BIGINT NOT NULL,
    divided       BIGINT NOT NULL,
    fix_risk      BIGINT NOT NULL,
    fix_kev       BIGINT NOT NULL,
    fix_findings  BIGINT NOT NULL,
    rest_risk     BIGINT NOT NULL,
    rest_kev      BIGINT NOT NULL,
    rest_findings BIGINT NOT NULL
);
CREATE TABLE image_fixes (
    image_pk    BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    action      BIGINT NOT NULL,
    package_pk  BIGINT NOT NULL,
    fingerprint TEXT NOT NULL,
    waits       BIGINT NOT NULL,
    risk_micros BIGINT NOT NULL,
    kev         BIGINT NOT NULL,
    findings    BIGINT NOT NULL,
    PRIMARY KEY (image_pk, action, package_pk)
);
INSERT INTO package_fixes (package_pk, fingerprint, distro, divided, fix_risk, fix_kev, fix_findings, rest_risk, rest_kev, rest_findings)
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
INSERT INTO image_fixes (image_pk, action, package_pk, fingerprint, waits, risk_micros, kev, findings)
    SELECT ip.image_pk, 0, 0, '', 0, 0, SUM(CASE WHEN pf.fix_kev > 0 THEN 1 ELSE 0 END), COUNT(*)
    FROM package_fixes pf JOIN image_packages ip ON ip.package_pk = pf.package_pk AND ip.excluded = 0 JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    WHERE pf.divided = 0 AND pf.distro = 0 AND pf.fix_findings > 0 GROUP BY ip.image_pk;
INSERT INTO image_fixes (image_pk, action, package_pk, fingerprint, waits, risk_micros, kev, findings)
    SELECT ip.image_pk, 1, pf.package_pk, pf.fingerprint, 0, SUM(v.risk_micros), SUM(v.kev), COUNT(*)
    FROM generations g JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number JOIN package_fixes pf ON pf.package_pk = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0 JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    WHERE g.state = 'Current' AND pf.divided = 1 AND pf.distro = 0 AND f.fixable = 1 AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
        AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = ip.image_pk)))
    GROUP BY ip.image_pk, pf.package_pk, pf.fingerprint;
INSERT INTO image_fixes (image_pk, action, package_pk, fingerprint, waits, risk_micros, kev, findings)
    SELECT ip.image_pk, 2, 0, '', 0, SUM(v.risk_micros), SUM(v.kev), COUNT(*)
    FROM generations g JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number JOIN package_fixes pf ON pf.package_pk = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0 JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    WHERE g.state = 'Current' AND pf.distro = 1 AND f.fixable = 1 AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
        AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = ip.image_pk)))
    GROUP BY ip.image_pk;
INSERT INTO image_fixes (image_pk, action, package_pk, fingerprint, waits, risk_micros, kev, findings)
    SELECT ip.image_pk, 3, 0, '', 1, SUM(v.risk_micros), SUM(v.kev), COUNT(*)
    FROM generations g JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number JOIN package_fixes pf ON pf.package_pk = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0 JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    WHERE g.state = 'Current' AND f.fixable = 0 AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
        AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = ip.image_pk)))
    GROUP BY ip.image_pk;
CREATE INDEX package_fixes_first ON package_fixes (distro, divided, fix_risk DESC, fingerprint);
CREATE INDEX image_fixes_first ON image_fixes (waits, risk_micros DESC, fingerprint);

-- +goose Down
DROP TABLE image_fixes;
DROP TABLE package_fixes;
