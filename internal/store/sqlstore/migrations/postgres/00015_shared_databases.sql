-- Vulnerability databases that were imported on one replica, for the others; the content is a .tar.zst archive in parts.

-- +goose Up
CREATE TABLE shared_databases (
    id             TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    build_id       TEXT COLLATE "C" NOT NULL,
    schema_version TEXT COLLATE "C" NOT NULL,
    built          BIGINT NOT NULL,
    installed_at   BIGINT NOT NULL,
    allow_older    BIGINT NOT NULL,
    sha256         TEXT COLLATE "C" NOT NULL,
    size           BIGINT NOT NULL,
    complete       BIGINT NOT NULL,
    started_at     BIGINT NOT NULL
);
CREATE TABLE shared_database_parts (
    database_id TEXT COLLATE "C" NOT NULL REFERENCES shared_databases (id) ON DELETE CASCADE,
    part        BIGINT NOT NULL,
    content     BYTEA  NOT NULL,
    PRIMARY KEY (database_id, part)
);

-- +goose Down
DROP TABLE shared_database_parts;
DROP TABLE shared_databases;
