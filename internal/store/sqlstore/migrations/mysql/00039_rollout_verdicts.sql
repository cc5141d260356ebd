-- +goose NO TRANSACTION
-- +goose Up
-- What rollouts did: opened and closed are counts by severity, worst both lists of findings.
CREATE TABLE IF NOT EXISTS rollout_verdicts (
    rollout_id BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    state      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    opened     TEXT NOT NULL,
    closed     TEXT NOT NULL,
    worst      MEDIUMTEXT NOT NULL,
    PRIMARY KEY (rollout_id),
    FOREIGN KEY (rollout_id) REFERENCES rollouts (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE rollout_verdicts;
