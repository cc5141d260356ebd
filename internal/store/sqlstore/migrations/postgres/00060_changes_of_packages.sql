-- Which changes are visible in some namespaces is read from the index alone. Writers wait while it is made, readers only while the indexes change places.

-- +goose Up
CREATE INDEX finding_changes_packages ON finding_changes (generation DESC, severity DESC, kev DESC, kind, id) INCLUDE (package_pk);
DROP INDEX finding_changes_worst;
ALTER INDEX finding_changes_packages RENAME TO finding_changes_worst;

-- +goose Down
CREATE INDEX finding_changes_without ON finding_changes (generation DESC, severity DESC, kev DESC, kind, id);
DROP INDEX finding_changes_worst;
ALTER INDEX finding_changes_without RENAME TO finding_changes_worst;
