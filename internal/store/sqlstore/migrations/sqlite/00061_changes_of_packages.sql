-- Which changes are visible in some namespaces, and the days of these, are read from the indexes alone.

-- +goose Up
DROP INDEX finding_changes_worst;
CREATE INDEX finding_changes_worst ON finding_changes (generation DESC, severity DESC, kev DESC, kind, id, package_pk);
DROP INDEX daily_sums_namespace;
CREATE INDEX daily_sums_namespace ON daily_sums (namespace, day, images, scanned, critical, high, medium, low, negligible, unknown, kev, fixable);

-- +goose Down
DROP INDEX finding_changes_worst;
CREATE INDEX finding_changes_worst ON finding_changes (generation DESC, severity DESC, kev DESC, kind, id);
DROP INDEX daily_sums_namespace;
CREATE INDEX daily_sums_namespace ON daily_sums (namespace, day);
