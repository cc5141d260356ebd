-- +goose NO TRANSACTION
-- +goose Up
DROP TABLE IF EXISTS scope_last_uses;

-- +goose Down
CREATE TABLE IF NOT EXISTS scope_last_uses (
    scope    VARCHAR(255) NOT NULL,
    image_pk BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (scope, image_pk),
    INDEX scope_last_uses_image (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
