-- +goose NO TRANSACTION
-- +goose Up
-- A row says that the findings of the package are complete; there may be none.
CREATE TABLE IF NOT EXISTS package_answers (
    package_pk  BIGINT NOT NULL,
    from_gen    BIGINT NOT NULL,
    until_gen   BIGINT NOT NULL,
    failure     LONGTEXT NOT NULL,
    -- 8 bytes for each key, big-endian.
    search_keys LONGBLOB NOT NULL,
    PRIMARY KEY (package_pk, from_gen),
    INDEX package_answers_from (from_gen, package_pk),
    INDEX package_answers_until (until_gen, package_pk),
    FOREIGN KEY (package_pk) REFERENCES packages (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE package_answers;
