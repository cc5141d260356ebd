-- Which packages have a vulnerability is read from the index alone, also if suppressed findings are left out. Writers wait while it is made, readers only while the indexes change places.

-- +goose Up
CREATE INDEX findings_shown_id ON findings (vulnerability_pk, until_gen, from_gen, package_pk, fixable) INCLUDE (id);
DROP INDEX findings_shown;
ALTER INDEX findings_shown_id RENAME TO findings_shown;

-- +goose Down
CREATE INDEX findings_shown_without ON findings (vulnerability_pk, until_gen, from_gen, package_pk, fixable);
DROP INDEX findings_shown;
ALTER INDEX findings_shown_without RENAME TO findings_shown;
