-- +goose NO TRANSACTION
-- +goose Up
-- What never changes about a vulnerability is what the digest is of, and in vulnerability_details: rows with other content are
-- other vulnerabilities. The scores change with the generations.
CREATE TABLE IF NOT EXISTS vulnerabilities (
    id               BIGINT NOT NULL AUTO_INCREMENT,
    digest           VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    vulnerability_id VARCHAR(255) NOT NULL,
    namespace        VARCHAR(255) NOT NULL,
    severity         BIGINT NOT NULL,
    -- The generation whose scores it had first.
    from_gen         BIGINT NOT NULL,
    -- Probabilities and risk in millionths, so that they sort and compare the same everywhere.
    epss_micros      BIGINT NOT NULL,
    risk_micros      BIGINT NOT NULL,
    kev              BIGINT NOT NULL,
    scores           LONGTEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY (digest),
    INDEX vulnerabilities_vulnerability (vulnerability_id),
    INDEX vulnerabilities_from (from_gen, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE vulnerabilities;
