-- +goose NO TRANSACTION
-- +goose Up
-- The packages that have to be matched for the next generation.
CREATE TABLE IF NOT EXISTS rematch_queue (
    package_pk BIGINT NOT NULL,
    PRIMARY KEY (package_pk),
    FOREIGN KEY (package_pk) REFERENCES packages (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE rematch_queue;
