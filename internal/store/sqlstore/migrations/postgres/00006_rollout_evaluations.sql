-- +goose Up
UPDATE rollout_verdicts SET state = CASE state WHEN 'judged' THEN 'evaluated' WHEN 'gaveUp' THEN 'timedOut' ELSE state END;
UPDATE events SET kind = 'rollout.evaluated', data = REPLACE(REPLACE(data, '"state":"judged"', '"state":"evaluated"'), '"state":"gaveUp"', '"state":"timedOut"')
    WHERE kind = 'rollout.judged';

-- +goose Down
UPDATE events SET kind = 'rollout.judged', data = REPLACE(REPLACE(data, '"state":"evaluated"', '"state":"judged"'), '"state":"timedOut"', '"state":"gaveUp"')
    WHERE kind = 'rollout.evaluated';
UPDATE rollout_verdicts SET state = CASE state WHEN 'evaluated' THEN 'judged' WHEN 'timedOut' THEN 'gaveUp' ELSE state END;
