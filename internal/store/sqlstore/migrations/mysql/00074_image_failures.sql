-- +goose NO TRANSACTION
-- +goose Up
-- The namespaces of the workloads that the last failed attempts at images were made for.
CREATE TABLE IF NOT EXISTS image_failures (
    image_pk  BIGINT NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_failures;
