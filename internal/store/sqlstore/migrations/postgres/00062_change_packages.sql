-- Of each result set that is or was current, the packages of the changes that are alike, as one text: an ID per change. Of result sets without rows,
-- finding_changes is read.

-- +goose Up
CREATE TABLE change_packages (
    generation BIGINT NOT NULL REFERENCES generations (number) ON DELETE CASCADE,
    severity   BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    kind       BIGINT NOT NULL,
    -- Whether the vulnerability is known to be exploited since these changes, and whether they are about some of the images that hold a package: their packages are not listed.
    newly_kev  BIGINT NOT NULL,
    partly     BIGINT NOT NULL,
    changes    BIGINT NOT NULL,
    packages   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (generation, severity, kev, kind, newly_kev, partly)
);
INSERT INTO change_packages (generation, severity, kev, kind, newly_kev, partly, changes, packages)
    SELECT c.generation, c.severity, c.kev, c.kind, CASE WHEN c.kev = 1 AND (c.kind = 0 OR c.kind = 2 AND c.reasons LIKE '%kev%') THEN 1 ELSE 0 END AS newly_kev,
        CASE WHEN cv.change_id IS NULL THEN 0 ELSE 1 END AS partly, COUNT(*), COALESCE(STRING_AGG(CASE WHEN cv.change_id IS NULL THEN CAST(c.package_pk AS TEXT) END, ','), '')
    FROM finding_changes c JOIN generations g ON g.number = c.generation LEFT JOIN change_variants cv ON cv.change_id = c.id
    WHERE g.current_since > 0 AND g.opened + g.closed + g.changed <= 200000 GROUP BY c.generation, c.severity, c.kev, c.kind, newly_kev, partly;

-- +goose Down
DROP TABLE change_packages;
