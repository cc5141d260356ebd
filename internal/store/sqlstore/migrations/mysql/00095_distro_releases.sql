-- +goose NO TRANSACTION
-- +goose Up
-- Which release of a distribution the database build means by the name that an image has.
CREATE TABLE IF NOT EXISTS distro_releases (
    distro       VARCHAR(255) NOT NULL,
    release_name VARCHAR(255) NOT NULL, -- 'rhel:9', also for the distribution 'rhel:9.4'
    PRIMARY KEY (distro),
    FOREIGN KEY (distro) REFERENCES distro_lifecycles (distro) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE distro_releases;
