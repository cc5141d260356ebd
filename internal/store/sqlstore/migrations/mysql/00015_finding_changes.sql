-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS finding_changes (
    id               BIGINT NOT NULL AUTO_INCREMENT,
    generation       BIGINT NOT NULL,
    package_pk       BIGINT NOT NULL,
    vulnerability_id VARCHAR(255) NOT NULL,
    namespace        VARCHAR(255) NOT NULL,
    -- The worse severity of both sides, and whether it is known to be exploited afterwards.
    severity         BIGINT NOT NULL,
    kev              BIGINT NOT NULL,
    -- 0 opened, 1 closed, 2 changed: the order in lists.
    kind             BIGINT NOT NULL,
    reasons          LONGTEXT NOT NULL,
    before_side      LONGTEXT NOT NULL,
    after_side       LONGTEXT NOT NULL,
    PRIMARY KEY (id),
    INDEX finding_changes_worst (generation DESC, severity DESC, kev DESC, kind, id),
    INDEX finding_changes_package (package_pk),
    FOREIGN KEY (generation) REFERENCES generations (number),
    FOREIGN KEY (package_pk) REFERENCES packages (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE finding_changes;
