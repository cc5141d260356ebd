-- One statement in each file, which changes nothing when it runs again: MySQL commits each statement by itself, and the process may be
-- killed before the version is noted.
-- Times are microseconds since 1970 in UTC, 0 for none. Booleans are 0 and 1. Text compares byte by byte.
-- A row with from_gen and until_gen is visible under generation g when from_gen <= g < until_gen; until_gen is 9223372036854775807 while
-- nothing has ended it.

-- +goose NO TRANSACTION
-- +goose Up
-- Transactions that write lock its row, one after the other.
CREATE TABLE IF NOT EXISTS writer_lock (
    id BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE writer_lock;
