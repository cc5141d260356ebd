-- +goose NO TRANSACTION
-- +goose Up
-- The images that a reach has.
CREATE TABLE IF NOT EXISTS reached (
    reach    BIGINT NOT NULL,
    image_pk BIGINT NOT NULL,
    PRIMARY KEY (reach, image_pk),
    INDEX reached_image (image_pk, reach),
    FOREIGN KEY (reach) REFERENCES reaches (id) ON DELETE CASCADE,
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE reached;
