-- +goose NO TRANSACTION
-- +goose Up
INSERT INTO writer_lock (id) VALUES (1) ON DUPLICATE KEY UPDATE id = 1;

-- +goose Down
DELETE FROM writer_lock;
