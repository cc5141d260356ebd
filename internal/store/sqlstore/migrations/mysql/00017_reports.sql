-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS reports (
    id         BIGINT NOT NULL AUTO_INCREMENT,
    image_id   VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    saved_at   BIGINT NOT NULL,
    critical   BIGINT NOT NULL,
    high       BIGINT NOT NULL,
    medium     BIGINT NOT NULL,
    low        BIGINT NOT NULL,
    negligible BIGINT NOT NULL,
    unknown    BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    fixable    BIGINT NOT NULL,
    size       BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY (image_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE reports;
