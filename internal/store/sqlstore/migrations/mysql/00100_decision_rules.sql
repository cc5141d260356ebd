-- +goose NO TRANSACTION
-- +goose Up
-- What decisions that apply and are statements of VEX documents are about.
CREATE TABLE IF NOT EXISTS decision_rules (
    decision_pk BIGINT NOT NULL,
    statement   VARCHAR(255) NOT NULL, -- tells the decisions of one object apart
    digest      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of the rule
    rule        LONGTEXT NOT NULL,
    PRIMARY KEY (decision_pk),
    FOREIGN KEY (decision_pk) REFERENCES decisions (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DELETE FROM decisions WHERE source = 'vex';
DELETE FROM finding_suppressions WHERE NOT EXISTS (SELECT 1 FROM decision_findings m JOIN decisions d ON d.id = m.decision_pk
    WHERE m.finding_id = finding_suppressions.finding_id AND d.reach = finding_suppressions.reach AND d.suppresses = 1 AND d.until_time = 9223372036854775807);
DROP TABLE decision_rules;
