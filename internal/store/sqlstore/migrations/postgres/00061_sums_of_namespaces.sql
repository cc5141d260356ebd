-- The days of a namespace are read from the index alone. Writers wait while it is made, readers only while the indexes change places.

-- +goose Up
CREATE INDEX daily_sums_of_namespace ON daily_sums (namespace, day) INCLUDE (images, scanned, critical, high, medium, low, negligible, unknown, kev, fixable);
DROP INDEX daily_sums_namespace;
ALTER INDEX daily_sums_of_namespace RENAME TO daily_sums_namespace;

-- +goose Down
CREATE INDEX daily_sums_without ON daily_sums (namespace, day);
DROP INDEX daily_sums_namespace;
ALTER INDEX daily_sums_without RENAME TO daily_sums_namespace;
