-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO found_vulnerabilities (vulnerability_pk, level)
    SELECT f.vulnerability_pk, 1 + MAX(f.fixable) FROM generations g JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number
    JOIN held_packages h ON h.package_pk = f.package_pk WHERE g.state = 'Current' AND h.level = 3 GROUP BY f.vulnerability_pk;

-- +goose Down
DELETE FROM found_vulnerabilities;
