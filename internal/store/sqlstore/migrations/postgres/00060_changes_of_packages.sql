-- Which changes are visible in some namespaces, and the days of these, are read from the indexes alone. Writers wait while they are made, readers only while the indexes change places.

-- +goose Up
CREATE INDEX finding_changes_packages ON finding_changes (generation DESC, severity DESC, kev DESC, kind, id) INCLUDE (package_pk);
CREATE INDEX daily_sums_of_namespace ON daily_sums (namespace, day) INCLUDE (images, scanned, critical, high, medium, low, negligible, unknown, kev, fixable);
DROP INDEX finding_changes_worst;
ALTER INDEX finding_changes_packages RENAME TO finding_changes_worst;
DROP INDEX daily_sums_namespace;
ALTER INDEX daily_sums_of_namespace RENAME TO daily_sums_namespace;

-- +goose Down
CREATE INDEX finding_changes_without ON finding_changes (generation DESC, severity DESC, kev DESC, kind, id);
CREATE INDEX daily_sums_without ON daily_sums (namespace, day);
DROP INDEX finding_changes_worst;
ALTER INDEX finding_changes_without RENAME TO finding_changes_worst;
DROP INDEX daily_sums_namespace;
ALTER INDEX daily_sums_without RENAME TO daily_sums_namespace;
