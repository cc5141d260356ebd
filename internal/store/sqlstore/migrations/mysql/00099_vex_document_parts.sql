-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS vex_document_parts (
    document_pk BIGINT NOT NULL,
    part        BIGINT NOT NULL,
    content     LONGBLOB NOT NULL,
    PRIMARY KEY (document_pk, part),
    FOREIGN KEY (document_pk) REFERENCES vex_documents (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE vex_document_parts;
