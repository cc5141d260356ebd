-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS findings (
    id               BIGINT NOT NULL AUTO_INCREMENT,
    package_pk       BIGINT NOT NULL,
    vulnerability_pk BIGINT NOT NULL,
    -- Of all that the finding says, the vulnerability among it.
    digest           VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    from_gen         BIGINT NOT NULL,
    until_gen        BIGINT NOT NULL,
    fix_state        VARCHAR(255) NOT NULL,
    fixable          BIGINT NOT NULL,
    fix_versions     LONGTEXT NOT NULL,
    details          LONGTEXT NOT NULL,
    -- When, and by which generation, the vulnerability was first found in the package without a break since; both are carried over to
    -- the rows of the same package_pk, vulnerability_id and namespace that take this one's place, beside it or from the generation that
    -- ends it. opened_at is 0 while the generation is not current. A finding was closed when until_gen became current, unless such a row
    -- begins there.
    opened_at        BIGINT NOT NULL DEFAULT 0,
    opened_gen       BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (id),
    UNIQUE KEY (package_pk, digest, from_gen),
    INDEX findings_from (from_gen, package_pk),
    INDEX findings_until (until_gen, package_pk),
    INDEX findings_vulnerability (vulnerability_pk),
    INDEX findings_opened (opened_gen, from_gen),
    FOREIGN KEY (package_pk) REFERENCES packages (id),
    FOREIGN KEY (vulnerability_pk) REFERENCES vulnerabilities (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE findings;
