-- +goose NO TRANSACTION
-- +goose Up
INSERT INTO event_floor (id, seq) VALUES (1, 0) ON DUPLICATE KEY UPDATE id = 1;

-- +goose Down
DELETE FROM event_floor;
