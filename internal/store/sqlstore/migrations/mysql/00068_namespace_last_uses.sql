-- +goose NO TRANSACTION
-- +goose Up
-- Until when images ran in a namespace, for each scope; the empty scope is that of scopes that do not exist any more. The empty namespace is that
-- of uses from before there were namespaces.
CREATE TABLE IF NOT EXISTS namespace_last_uses (
    scope     VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    image_pk  BIGINT NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (scope, namespace, image_pk),
    INDEX namespace_last_uses_image (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE namespace_last_uses;
