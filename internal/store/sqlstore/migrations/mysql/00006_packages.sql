-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS packages (
    id          BIGINT NOT NULL AUTO_INCREMENT,
    fingerprint VARCHAR(255) NOT NULL,
    name        VARCHAR(1024) NOT NULL,
    version     VARCHAR(1024) NOT NULL,
    type        LONGTEXT NOT NULL,
    language    LONGTEXT NOT NULL,
    purl        LONGTEXT NOT NULL,
    distro      LONGTEXT NOT NULL,
    licenses    LONGTEXT NOT NULL,
    cpes        LONGTEXT NOT NULL,
    match_input LONGBLOB,
    PRIMARY KEY (id),
    UNIQUE KEY (fingerprint),
    INDEX packages_name (name (255), version (255), type (64))
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE packages;
