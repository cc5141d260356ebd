-- +goose NO TRANSACTION
-- +goose Up
-- How many findings a reach with places suppresses in a matched image of which it has any place, without those that something else suppresses in the whole image.
-- There are no rows without counts.
CREATE TABLE IF NOT EXISTS reached_counts (
    reach      BIGINT NOT NULL,
    image_pk   BIGINT NOT NULL,
    critical   BIGINT NOT NULL,
    high       BIGINT NOT NULL,
    medium     BIGINT NOT NULL,
    low        BIGINT NOT NULL,
    negligible BIGINT NOT NULL,
    unknown    BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    fixable    BIGINT NOT NULL,
    PRIMARY KEY (reach, image_pk),
    INDEX reached_counts_image (image_pk, reach),
    FOREIGN KEY (reach) REFERENCES reaches (id) ON DELETE CASCADE,
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE reached_counts;
