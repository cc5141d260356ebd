-- What lists of packages and vulnerabilities count and order by. level is 1 of packages that every image that holds them excludes, 2 of others,
-- 3 if one of these images is matched. It is 1 of vulnerabilities that are found in a package of level 3, 2 if a fixed version is known for one.

-- +goose Up
CREATE TABLE held_packages (
    package_pk  BIGINT NOT NULL PRIMARY KEY REFERENCES packages (id) ON DELETE CASCADE,
    fingerprint TEXT   NOT NULL,
    level       BIGINT NOT NULL,
    critical    BIGINT NOT NULL DEFAULT 0,
    high        BIGINT NOT NULL DEFAULT 0,
    medium      BIGINT NOT NULL DEFAULT 0,
    low         BIGINT NOT NULL DEFAULT 0,
    negligible  BIGINT NOT NULL DEFAULT 0,
    unknown     BIGINT NOT NULL DEFAULT 0,
    kev         BIGINT NOT NULL DEFAULT 0,
    fixable     BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE found_vulnerabilities (
    vulnerability_pk BIGINT NOT NULL PRIMARY KEY REFERENCES vulnerabilities (id) ON DELETE CASCADE,
    level            BIGINT NOT NULL
);
INSERT INTO held_packages (package_pk, fingerprint, level, critical, high, medium, low, negligible, unknown, kev, fixable)
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
INSERT INTO found_vulnerabilities (vulnerability_pk, level)
    SELECT f.vulnerability_pk, 1 + MAX(f.fixable) FROM generations g JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number
    JOIN held_packages h ON h.package_pk = f.package_pk WHERE g.state = 'Current' AND h.level = 3 GROUP BY f.vulnerability_pk;
CREATE INDEX held_packages_worst ON held_packages (critical DESC, high DESC, medium DESC, low DESC, fingerprint);
CREATE INDEX findings_shown ON findings (vulnerability_pk, until_gen, from_gen, package_pk, fixable);
DROP INDEX findings_vulnerability;

-- +goose Down
CREATE INDEX findings_vulnerability ON findings (vulnerability_pk);
DROP INDEX findings_shown;
DROP TABLE found_vulnerabilities;
DROP TABLE held_packages;
