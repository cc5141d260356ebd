-- VEX documents, and the decisions that are statements of them.

-- +goose Up
-- What was fetched for an object of the cluster, or uploaded by a user.
CREATE TABLE vex_sources (
    id       BIGSERIAL PRIMARY KEY,
    kind     TEXT COLLATE "C" NOT NULL, -- 'VEXSource', 'VEXDocument'
    name     TEXT COLLATE "C" NOT NULL,
    author   TEXT COLLATE "C" NOT NULL,
    version  TEXT COLLATE "C" NOT NULL, -- of what was fetched, such as an ETag
    saved_at BIGINT NOT NULL,
    UNIQUE (kind, name)
);
CREATE TABLE vex_documents (
    id        BIGSERIAL PRIMARY KEY,
    source_pk BIGINT NOT NULL REFERENCES vex_sources (id) ON DELETE CASCADE,
    name      TEXT COLLATE "C" NOT NULL,
    sha256    TEXT COLLATE "C" NOT NULL,
    size      BIGINT NOT NULL,
    UNIQUE (source_pk, name)
);
CREATE TABLE vex_document_parts (
    document_pk BIGINT NOT NULL REFERENCES vex_documents (id) ON DELETE CASCADE,
    part        BIGINT NOT NULL,
    content     BYTEA  NOT NULL,
    PRIMARY KEY (document_pk, part)
);
-- What decisions that apply and are statements of VEX documents are about.
CREATE TABLE decision_rules (
    decision_pk BIGINT NOT NULL PRIMARY KEY REFERENCES decisions (id) ON DELETE CASCADE,
    statement   TEXT COLLATE "C" NOT NULL, -- tells the decisions of one object apart
    digest      TEXT COLLATE "C" NOT NULL, -- of the rule
    rule        TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE decision_rules;
DELETE FROM decisions WHERE source = 'vex';
DELETE FROM finding_suppressions WHERE NOT EXISTS (SELECT 1 FROM decision_findings m JOIN decisions d ON d.id = m.decision_pk
    WHERE m.finding_id = finding_suppressions.finding_id AND d.reach = finding_suppressions.reach AND d.suppresses = 1 AND d.until_time = 9223372036854775807);
DROP TABLE vex_document_parts;
DROP TABLE vex_documents;
DROP TABLE vex_sources;
