-- +goose NO TRANSACTION
-- +goose Up
-- Sums of a day (YYYY-MM-DD, UTC); namespace is '' for the whole cluster.
CREATE TABLE IF NOT EXISTS daily_sums (
    day        VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    cluster    VARCHAR(255) NOT NULL,
    namespace  VARCHAR(255) NOT NULL,
    images     BIGINT NOT NULL,
    scanned    BIGINT NOT NULL,
    critical   BIGINT NOT NULL,
    high       BIGINT NOT NULL,
    medium     BIGINT NOT NULL,
    low        BIGINT NOT NULL,
    negligible BIGINT NOT NULL,
    unknown    BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    fixable    BIGINT NOT NULL,
    PRIMARY KEY (day, cluster, namespace)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE daily_sums;
