-- +goose NO TRANSACTION
-- +goose Up
-- What was decided. A change ends a row and begins another one: the rows are the history.
CREATE TABLE IF NOT EXISTS decisions (
    id            BIGINT NOT NULL AUTO_INCREMENT,
    source        VARCHAR(255) NOT NULL, -- 'kubernetes'
    kind          VARCHAR(255) NOT NULL,
    namespace     VARCHAR(255) NOT NULL,
    name          VARCHAR(255) NOT NULL,
    digest        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of all that follows up to expires_at
    reach         BIGINT NOT NULL, -- 0: everywhere
    status        VARCHAR(255) NOT NULL,
    suppresses    BIGINT NOT NULL, -- 1: no dry run, and a status that suppresses
    unfixed       BIGINT NOT NULL, -- 1: findings for which a fixed version is known are left out
    spec          LONGTEXT NOT NULL, -- what it matches, as JSON
    justification VARCHAR(255) NOT NULL,
    comment       LONGTEXT NOT NULL,
    author        VARCHAR(255) NOT NULL,
    expires_at    BIGINT NOT NULL, -- 0: never
    since         BIGINT NOT NULL,
    until_time    BIGINT NOT NULL, -- 9223372036854775807 while it applies
    ended_by      VARCHAR(255) NOT NULL, -- '', Changed, Deleted, Expired
    PRIMARY KEY (id),
    INDEX decisions_applied (until_time, expires_at),
    INDEX decisions_object (source, namespace, name, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE decisions;
