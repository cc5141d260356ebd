-- +goose NO TRANSACTION
-- +goose Up
-- Where findings were suppressed when a build closed them, for messages about them: in a reach, which can be of no decision any more. One row for each
-- finding of a change and each reach; none if a finding of the change was suppressed nowhere.
CREATE TABLE IF NOT EXISTS closed_suppressions (
    change_id  BIGINT NOT NULL,
    finding_id BIGINT NOT NULL,
    reach      BIGINT NOT NULL,
    PRIMARY KEY (change_id, finding_id, reach),
    INDEX closed_suppressions_reach (reach),
    FOREIGN KEY (change_id) REFERENCES finding_changes (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE closed_suppressions;
