-- +goose NO TRANSACTION
-- +goose Up
-- The scores that vulnerabilities will have when the next generation becomes current.
CREATE TABLE IF NOT EXISTS staged_scores (
    vulnerability_pk BIGINT NOT NULL,
    epss_micros      BIGINT NOT NULL,
    risk_micros      BIGINT NOT NULL,
    kev              BIGINT NOT NULL,
    scores           LONGTEXT NOT NULL,
    PRIMARY KEY (vulnerability_pk),
    FOREIGN KEY (vulnerability_pk) REFERENCES vulnerabilities (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE staged_scores;
