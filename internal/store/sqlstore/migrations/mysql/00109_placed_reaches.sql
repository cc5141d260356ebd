-- +goose NO TRANSACTION
-- +goose Up
-- The reaches that have places: of decisions about some places, or of several such decisions together. members are the numbers of these, separated by
-- commas, or '' for the reach of a decision. digest is that of the places.
CREATE TABLE IF NOT EXISTS placed_reaches (
    reach   BIGINT NOT NULL,
    members LONGTEXT NOT NULL,
    digest  VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (reach),
    FOREIGN KEY (reach) REFERENCES reaches (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE placed_reaches;
