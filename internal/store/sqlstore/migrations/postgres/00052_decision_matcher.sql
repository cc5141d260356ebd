-- Which version of the matcher the findings of decisions were looked up with; one row, none before the first time.

-- +goose Up
CREATE TABLE decision_matcher (
    id      BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);

-- +goose Down
DROP TABLE decision_matcher;
