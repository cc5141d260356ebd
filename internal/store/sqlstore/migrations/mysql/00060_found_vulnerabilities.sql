-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS found_vulnerabilities (
    vulnerability_pk BIGINT NOT NULL,
    level            BIGINT NOT NULL,
    PRIMARY KEY (vulnerability_pk),
    FOREIGN KEY (vulnerability_pk) REFERENCES vulnerabilities (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE found_vulnerabilities;
