-- +goose NO TRANSACTION
-- +goose Up
-- Changes of image in workloads. Images are named, not referred to: a rollout outlives them.
CREATE TABLE IF NOT EXISTS rollouts (
    id            BIGINT NOT NULL AUTO_INCREMENT,
    at            BIGINT NOT NULL,
    cluster       VARCHAR(255) NOT NULL,
    namespace     VARCHAR(255) NOT NULL,
    kind          VARCHAR(255) NOT NULL,
    name          VARCHAR(255) NOT NULL,
    container     VARCHAR(255) NOT NULL,
    from_image    VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    from_platform VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    to_image      VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    to_platform   VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (id),
    INDEX rollouts_at (at),
    INDEX rollouts_workload (namespace, name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE rollouts;
