-- +goose NO TRANSACTION
-- +goose Up
-- The findings of the live result sets that decisions which apply match, whether they suppress them or not.
CREATE TABLE IF NOT EXISTS decision_findings (
    finding_id  BIGINT NOT NULL,
    decision_pk BIGINT NOT NULL,
    PRIMARY KEY (finding_id, decision_pk),
    INDEX decision_findings_decision (decision_pk, finding_id),
    FOREIGN KEY (finding_id) REFERENCES findings (id) ON DELETE CASCADE,
    FOREIGN KEY (decision_pk) REFERENCES decisions (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE decision_findings;
