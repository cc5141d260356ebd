-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS image_fixes (
    image_pk    BIGINT NOT NULL,
    action      BIGINT NOT NULL,
    package_pk  BIGINT NOT NULL,
    fingerprint VARCHAR(255) NOT NULL,
    waits       BIGINT NOT NULL,
    risk_micros BIGINT NOT NULL,
    kev         BIGINT NOT NULL,
    findings    BIGINT NOT NULL,
    PRIMARY KEY (image_pk, action, package_pk),
    INDEX image_fixes_first (waits, risk_micros DESC, fingerprint),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_fixes;
