-- +goose NO TRANSACTION
-- +goose Up
-- Until when images ran, for each scope; the empty one is that of scopes that do not exist any more.
CREATE TABLE IF NOT EXISTS scope_last_uses (
    scope    VARCHAR(255) NOT NULL,
    image_pk BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (scope, image_pk),
    INDEX scope_last_uses_image (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE scope_last_uses;
