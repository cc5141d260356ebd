-- Sessions of users who signed in with an identity provider. Texts are hashes; the content is encrypted with a key from the cookie.

-- +goose Up
CREATE TABLE sessions (
    id               TEXT   NOT NULL PRIMARY KEY,
    owner            TEXT   NOT NULL,
    subject          TEXT   NOT NULL,
    provider_session TEXT   NOT NULL,
    content          BLOB   NOT NULL,
    version          BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    refresh_at       BIGINT NOT NULL,
    expires_at       BIGINT NOT NULL
);
CREATE INDEX sessions_owner ON sessions (owner, created_at);
CREATE INDEX sessions_subject ON sessions (subject);
CREATE INDEX sessions_provider_session ON sessions (provider_session);
CREATE INDEX sessions_expires_at ON sessions (expires_at);

-- +goose Down
DROP TABLE sessions;
