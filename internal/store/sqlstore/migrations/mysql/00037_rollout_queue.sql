-- +goose NO TRANSACTION
-- +goose Up
-- What is still to be done about rollouts: 0 they wait to be judged, 1 their workloads are to be told.
CREATE TABLE IF NOT EXISTS rollout_queue (
    rollout_id BIGINT NOT NULL,
    stage      BIGINT NOT NULL,
    PRIMARY KEY (rollout_id),
    FOREIGN KEY (rollout_id) REFERENCES rollouts (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE rollout_queue;
