-- Of each result set that is or was current, the packages of the changes that are alike, as one text: an ID per change. Of result sets without rows, or with more than
-- 500,000 changes, finding_changes is read.

-- +goose Up
CREATE TABLE change_packages (
    generation BIGINT NOT NULL REFERENCES generations (number) ON DELETE CASCADE,
    severity   BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    kind       BIGINT NOT NULL,
    -- Whether the vulnerability is known to be exploited since this change.
    newly_kev  BIGINT NOT NULL,
    changes    BIGINT NOT NULL,
    packages   TEXT   NOT NULL,
    PRIMARY KEY (generation, severity, kev, kind, newly_kev)
);
INSERT INTO change_packages (generation, severity, kev, kind, newly_kev, changes, packages)
    SELECT c.generation, c.severity, c.kev, c.kind, CASE WHEN c.kev = 1 AND (c.kind = 0 OR c.kind = 2 AND c.reasons LIKE '%kev%') THEN 1 ELSE 0 END AS newly_kev,
        COUNT(*), GROUP_CONCAT(c.package_pk)
    FROM finding_changes c JOIN generations g ON g.number = c.generation
    WHERE g.current_since > 0 AND g.opened + g.closed + g.changed <= 500000 GROUP BY c.generation, c.severity, c.kev, c.kind, newly_kev;

-- +goose Down
DROP TABLE change_packages;
