-- +goose NO TRANSACTION
-- +goose Up
-- Users for whom the operator is about to delete the object of a decision.
CREATE TABLE IF NOT EXISTS decision_deletions (
    request      VARCHAR(64) PRIMARY KEY, -- random
    decision_pk  BIGINT NOT NULL,
    author       VARCHAR(255) NOT NULL,
    requested_at BIGINT NOT NULL,
    INDEX decision_deletions_decision (decision_pk),
    FOREIGN KEY (decision_pk) REFERENCES decisions (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE decision_deletions;
