-- +goose NO TRANSACTION
-- +goose Up
-- Images that began to be visible in a namespace, as long as no event has told of their findings there. at is since when it is.
CREATE TABLE IF NOT EXISTS introductions (
    image_pk  BIGINT NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (image_pk, namespace),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE introductions;
