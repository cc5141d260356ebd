-- +goose NO TRANSACTION
-- +goose Up
-- Sources of VEX documents whose decisions apply in full: accepted risks and ends, too.
CREATE TABLE IF NOT EXISTS vex_exported_decisions (
    source_pk BIGINT PRIMARY KEY,
    FOREIGN KEY (source_pk) REFERENCES vex_sources (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE vex_exported_decisions;
