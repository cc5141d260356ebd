-- +goose NO TRANSACTION
-- +goose Up
-- What was fetched for an object of the cluster, or uploaded by a user.
CREATE TABLE IF NOT EXISTS vex_sources (
    id       BIGINT NOT NULL AUTO_INCREMENT,
    kind     VARCHAR(255) NOT NULL, -- 'VEXSource', 'VEXDocument'
    name     VARCHAR(255) NOT NULL,
    author   VARCHAR(255) NOT NULL,
    version  VARCHAR(255) NOT NULL, -- of what was fetched, such as an ETag
    saved_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE INDEX vex_sources_name (kind, name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE vex_sources;
