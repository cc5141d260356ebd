-- +goose NO TRANSACTION
-- +goose Up
UPDATE rollout_verdicts SET state = CASE state WHEN 'judged' THEN 'evaluated' WHEN 'gaveUp' THEN 'timedOut' ELSE state END;

-- +goose Down
UPDATE rollout_verdicts SET state = CASE state WHEN 'evaluated' THEN 'judged' WHEN 'timedOut' THEN 'gaveUp' ELSE state END;
