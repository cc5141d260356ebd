-- +goose NO TRANSACTION
-- +goose Up
-- The sums of a namespace follow one another. Unlike a statement that adds an index, this one can be repeated.
ALTER TABLE daily_sums DROP PRIMARY KEY, ADD PRIMARY KEY (namespace, day, cluster);

-- +goose Down
ALTER TABLE daily_sums DROP PRIMARY KEY, ADD PRIMARY KEY (day, cluster, namespace);
