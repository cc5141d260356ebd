-- +goose NO TRANSACTION
-- +goose Up
-- Which registries are paused until when, for scans that use the credentials of a namespace; empty for scans without those of a tenant.
CREATE TABLE IF NOT EXISTS registry_pauses (
    host       VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    namespace  VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    until_time BIGINT NOT NULL,
    reason     VARCHAR(1024) NOT NULL,
    PRIMARY KEY (host, namespace)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE registry_pauses;
