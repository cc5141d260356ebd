-- Which packages have a vulnerability is read from the index alone, also if suppressed findings are left out.

-- +goose Up
DROP INDEX findings_shown;
CREATE INDEX findings_shown ON findings (vulnerability_pk, until_gen, from_gen, package_pk, fixable) INCLUDE (id);

-- +goose Down
DROP INDEX findings_shown;
CREATE INDEX findings_shown ON findings (vulnerability_pk, until_gen, from_gen, package_pk, fixable);
