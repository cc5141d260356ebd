-- Events tell of each finding of an image that is overdue and open, instead of the dates that pass between two times.

-- +goose Up
-- The findings of an image that events told of: a number of 8 bytes for each vulnerability of a package.
CREATE TABLE overdue_told (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    findings BYTEA  NOT NULL
);
-- Nothing is told again.
UPDATE policies SET since = (SELECT MAX(told_until) FROM deadlines_told) WHERE since < (SELECT MAX(told_until) FROM deadlines_told);
DROP TABLE deadlines_told;

-- +goose Down
CREATE TABLE deadlines_told (
    id         BIGINT NOT NULL PRIMARY KEY,
    told_until BIGINT NOT NULL
);
DROP TABLE overdue_told;
