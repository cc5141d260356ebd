-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS vex_documents (
    id        BIGINT NOT NULL AUTO_INCREMENT,
    source_pk BIGINT NOT NULL,
    name      VARCHAR(255) NOT NULL,
    sha256    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    size      BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE INDEX vex_documents_name (source_pk, name),
    FOREIGN KEY (source_pk) REFERENCES vex_sources (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE vex_documents;
