-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS generations (
    number          BIGINT NOT NULL AUTO_INCREMENT,
    build_id        VARCHAR(255) NOT NULL,
    schema_version  LONGTEXT NOT NULL,
    built           BIGINT NOT NULL,
    source          LONGTEXT NOT NULL,
    engine          LONGTEXT NOT NULL,
    previous_build  VARCHAR(255) NOT NULL,
    full_match      BIGINT NOT NULL,
    -- Beside the states that are shown: Discarded, while what it wrote is being removed.
    state           VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    started_at      BIGINT NOT NULL,
    current_since   BIGINT NOT NULL,
    queued          BIGINT NOT NULL,
    matched         BIGINT NOT NULL,
    opened          BIGINT NOT NULL,
    closed          BIGINT NOT NULL,
    changed         BIGINT NOT NULL,
    images          BIGINT NOT NULL,
    opened_critical BIGINT NOT NULL,
    new_kev         BIGINT NOT NULL,
    PRIMARY KEY (number),
    INDEX generations_state (state),
    INDEX generations_build (build_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE generations;
