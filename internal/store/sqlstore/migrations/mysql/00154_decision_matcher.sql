-- +goose NO TRANSACTION
-- Which version of the matcher the findings of decisions were looked up with; one row, none before the first time.
-- +goose Up
CREATE TABLE IF NOT EXISTS decision_matcher (
    id      BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE decision_matcher;
