-- +goose NO TRANSACTION
-- +goose Up
-- Where images ran, one row for each uninterrupted time. slot is namespace/kind/name/container, or a digest of them when that is longer
-- than 255 bytes or has other slashes.
CREATE TABLE IF NOT EXISTS image_presences (
    id         BIGINT NOT NULL AUTO_INCREMENT,
    image_pk   BIGINT NOT NULL,
    slot       VARCHAR(255) NOT NULL,
    cluster    VARCHAR(255) NOT NULL,
    namespace  VARCHAR(255) NOT NULL,
    kind       VARCHAR(255) NOT NULL,
    name       VARCHAR(255) NOT NULL,
    container  VARCHAR(255) NOT NULL,
    since      BIGINT NOT NULL,
    -- 9223372036854775807 while it runs.
    until_time BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY (image_pk, slot, since),
    INDEX image_presences_slot (slot, until_time),
    INDEX image_presences_until (until_time, image_pk),
    INDEX image_presences_workload (namespace, name, kind, image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_presences;
