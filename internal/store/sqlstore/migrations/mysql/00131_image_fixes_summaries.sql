-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO image_fixes (image_pk, action, package_pk, fingerprint, waits, risk_micros, kev, findings)
    SELECT ip.image_pk, 0, 0, '', 0, 0, SUM(CASE WHEN pf.fix_kev > 0 THEN 1 ELSE 0 END), COUNT(*)
    FROM package_fixes pf JOIN image_packages ip ON ip.package_pk = pf.package_pk AND ip.excluded = 0 JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    WHERE pf.divided = 0 AND pf.distro = 0 AND pf.fix_findings > 0 GROUP BY ip.image_pk;

-- +goose Down
DELETE FROM image_fixes WHERE action = 0;
