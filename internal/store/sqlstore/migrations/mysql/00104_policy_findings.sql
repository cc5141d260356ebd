-- +goose NO TRANSACTION
-- +goose Up
-- What policies say of findings, without regard to the place: due so many days after since, or after the image has findings.
CREATE TABLE IF NOT EXISTS policy_findings (
    finding_id BIGINT NOT NULL,
    policy_pk  BIGINT NOT NULL,
    days       BIGINT NOT NULL,
    since      BIGINT NOT NULL, -- 0: when the result set of the finding becomes current
    PRIMARY KEY (finding_id, policy_pk, days),
    INDEX policy_findings_policy (policy_pk, finding_id),
    FOREIGN KEY (finding_id) REFERENCES findings (id) ON DELETE CASCADE,
    FOREIGN KEY (policy_pk) REFERENCES policies (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE policy_findings;
