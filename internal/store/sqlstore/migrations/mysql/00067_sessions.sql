-- +goose NO TRANSACTION
-- +goose Up
-- Sessions of users who signed in with an identity provider. Texts are hashes; the content is encrypted with a key from the cookie.
CREATE TABLE IF NOT EXISTS sessions (
    id               VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    subject          VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    provider_session VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    content          LONGBLOB NOT NULL,
    version          BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    refresh_at       BIGINT NOT NULL,
    expires_at       BIGINT NOT NULL,
    PRIMARY KEY (id),
    INDEX sessions_owner (owner, created_at),
    INDEX sessions_subject (subject),
    INDEX sessions_provider_session (provider_session),
    INDEX sessions_expires_at (expires_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sessions;
