-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS images (
    id              BIGINT NOT NULL AUTO_INCREMENT,
    image_id        VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    platform        VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    repository      VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    digest          VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    state           VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    nonce           VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempts        BIGINT NOT NULL,
    reason          VARCHAR(255) NOT NULL,
    message         VARCHAR(1024) NOT NULL,
    next_attempt_at BIGINT NOT NULL,
    distro          LONGTEXT NOT NULL,
    size            BIGINT NOT NULL,
    package_count   BIGINT NOT NULL,
    critical        BIGINT NOT NULL,
    high            BIGINT NOT NULL,
    medium          BIGINT NOT NULL,
    low             BIGINT NOT NULL,
    negligible      BIGINT NOT NULL,
    unknown         BIGINT NOT NULL,
    kev             BIGINT NOT NULL,
    fixable         BIGINT NOT NULL,
    first_seen      BIGINT NOT NULL,
    catalogued_at   BIGINT NOT NULL,
    matched_at      BIGINT NOT NULL,
    sbom_sha256     VARCHAR(255) NOT NULL,
    sbom_size       BIGINT NOT NULL,
    -- The version of the rules that the SBOM was read by.
    projection      BIGINT NOT NULL DEFAULT 0,
    -- 1 when the SBOM is a report from outside: the image is still to be catalogued when something runs it.
    from_report     BIGINT NOT NULL DEFAULT 0,
    -- How many attempts to catalogue the image have begun, as far as that was told.
    queued          BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (id),
    UNIQUE KEY (image_id, platform),
    INDEX images_digest (digest),
    INDEX images_severity (critical DESC, high DESC, medium DESC, low DESC, image_id, platform),
    INDEX images_state (state, image_id, platform)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE images;
