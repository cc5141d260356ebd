-- +goose NO TRANSACTION
-- +goose Up
-- How far the scans of containers are, as the Scanner controller found out. row_key is a digest of all columns that tell rows of a
-- scope apart.
CREATE TABLE IF NOT EXISTS container_coverage (
    id              BIGINT NOT NULL AUTO_INCREMENT,
    scope           VARCHAR(255) NOT NULL,
    row_key         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    namespace       VARCHAR(255) NOT NULL,
    kind            VARCHAR(255) NOT NULL,
    name            VARCHAR(255) NOT NULL,
    container       VARCHAR(255) NOT NULL,
    image_id        LONGTEXT NOT NULL,
    platform        VARCHAR(255) NOT NULL,
    reference       LONGTEXT NOT NULL,
    pods            BIGINT NOT NULL,
    state           VARCHAR(255) NOT NULL,
    reason          VARCHAR(255) NOT NULL,
    message         LONGTEXT NOT NULL,
    next_attempt_at BIGINT NOT NULL,
    since           BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY (scope, row_key),
    INDEX container_coverage_workload (namespace (63), kind (63), name (253), container (63))
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE container_coverage;
