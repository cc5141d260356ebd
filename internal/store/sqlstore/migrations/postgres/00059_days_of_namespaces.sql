-- The days of a namespace are read without those of all others.

-- +goose Up
CREATE INDEX daily_sums_namespace ON daily_sums (namespace, day);

-- +goose Down
DROP INDEX daily_sums_namespace;
