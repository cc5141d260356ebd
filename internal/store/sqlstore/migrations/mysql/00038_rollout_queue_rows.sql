-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO rollout_queue (rollout_id, stage) SELECT id, 0 FROM rollouts;

-- +goose Down
DELETE FROM rollout_queue;
