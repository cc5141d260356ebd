-- +goose NO TRANSACTION
-- +goose Up
-- The findings of an image that events told of: a number of 8 bytes for each vulnerability of a package.
CREATE TABLE IF NOT EXISTS overdue_told (
    image_pk BIGINT   NOT NULL,
    findings LONGBLOB NOT NULL,
    PRIMARY KEY (image_pk),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE overdue_told;
