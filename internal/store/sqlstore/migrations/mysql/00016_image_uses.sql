-- Bytes instead of text, so that the whole key fits into an index.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS image_uses (
    scope     VARBINARY(255) NOT NULL,
    image_pk  BIGINT NOT NULL,
    namespace VARBINARY(255) NOT NULL,
    kind      VARBINARY(255) NOT NULL,
    name      VARBINARY(255) NOT NULL,
    container VARBINARY(255) NOT NULL,
    PRIMARY KEY (scope, image_pk, namespace, kind, name, container),
    INDEX image_uses_image (image_pk, scope),
    INDEX image_uses_workload (namespace, name, kind, image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_uses;
