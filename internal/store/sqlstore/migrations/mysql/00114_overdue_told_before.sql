-- +goose NO TRANSACTION
-- +goose Up
-- Nothing is told again.
UPDATE policies SET since = (SELECT MAX(told_until) FROM deadlines_told) WHERE since < (SELECT MAX(told_until) FROM deadlines_told);

-- +goose Down
SELECT 1;
