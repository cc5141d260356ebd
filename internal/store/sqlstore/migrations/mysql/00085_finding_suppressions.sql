-- +goose NO TRANSACTION
-- +goose Up
-- What follows from decisions: a finding is suppressed wherever the reach is.
CREATE TABLE IF NOT EXISTS finding_suppressions (
    finding_id BIGINT NOT NULL,
    reach      BIGINT NOT NULL,
    PRIMARY KEY (finding_id, reach),
    INDEX finding_suppressions_reach (reach, finding_id),
    FOREIGN KEY (finding_id) REFERENCES findings (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE finding_suppressions;
