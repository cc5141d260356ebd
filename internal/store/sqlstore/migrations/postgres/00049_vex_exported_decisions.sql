-- Sources of VEX documents whose decisions apply in full: accepted risks and ends, too.

-- +goose Up
CREATE TABLE vex_exported_decisions (
    source_pk BIGINT PRIMARY KEY REFERENCES vex_sources (id) ON DELETE CASCADE
);

-- +goose Down
DROP TABLE vex_exported_decisions;
