-- +goose NO TRANSACTION
-- +goose Up
-- What lists of packages and vulnerabilities count and order by. level is 1 of packages that every image that holds them excludes, 2 of others,
-- 3 if one of these images is matched. It is 1 of vulnerabilities that are found in a package of level 3, 2 if a fixed version is known for one.
CREATE TABLE IF NOT EXISTS held_packages (
    package_pk  BIGINT NOT NULL,
    fingerprint VARCHAR(255) NOT NULL,
    level       BIGINT NOT NULL,
    critical    BIGINT NOT NULL DEFAULT 0,
    high        BIGINT NOT NULL DEFAULT 0,
    medium      BIGINT NOT NULL DEFAULT 0,
    low         BIGINT NOT NULL DEFAULT 0,
    negligible  BIGINT NOT NULL DEFAULT 0,
    unknown     BIGINT NOT NULL DEFAULT 0,
    kev         BIGINT NOT NULL DEFAULT 0,
    fixable     BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (package_pk),
    INDEX held_packages_worst (critical DESC, high DESC, medium DESC, low DESC, fingerprint),
    FOREIGN KEY (package_pk) REFERENCES packages (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE held_packages;
