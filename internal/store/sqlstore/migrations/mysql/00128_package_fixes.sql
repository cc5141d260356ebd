-- +goose NO TRANSACTION
-- +goose Up
-- What the list of fixes is ordered by. package_fixes has the packages of matched images with findings: the sums of those that a fix closes, and of the
-- others; divided is 1 if some count in some images only, then there are no sums. image_fixes has, of each matched image, the number of updates of packages
-- that are not divided (action 0), the updates of those that are (1), a rebuild (2), and the findings without a fix (3).
CREATE TABLE IF NOT EXISTS package_fixes (
    package_pk    BIGINT NOT NULL,
    fingerprint   VARCHAR(255) NOT NULL,
    distro        BIGINT NOT NULL,
    divided       BIGINT NOT NULL,
    fix_risk      BIGINT NOT NULL,
    fix_kev       BIGINT NOT NULL,
    fix_findings  BIGINT NOT NULL,
    rest_risk     BIGINT NOT NULL,
    rest_kev      BIGINT NOT NULL,
    rest_findings BIGINT NOT NULL,
    PRIMARY KEY (package_pk),
    INDEX package_fixes_first (distro, divided, fix_risk DESC, fingerprint),
    FOREIGN KEY (package_pk) REFERENCES packages (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE package_fixes;
