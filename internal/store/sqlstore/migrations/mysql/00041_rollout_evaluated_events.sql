-- +goose NO TRANSACTION
-- +goose Up
UPDATE events SET kind = 'rollout.evaluated', data = REPLACE(REPLACE(data, '"state":"judged"', '"state":"evaluated"'), '"state":"gaveUp"', '"state":"timedOut"')
    WHERE kind = 'rollout.judged';

-- +goose Down
UPDATE events SET kind = 'rollout.judged', data = REPLACE(REPLACE(data, '"state":"evaluated"', '"state":"judged"'), '"state":"timedOut"', '"state":"gaveUp"')
    WHERE kind = 'rollout.evaluated';
