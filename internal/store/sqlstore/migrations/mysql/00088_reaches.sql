-- +goose NO TRANSACTION
-- +goose Up
-- Where decisions that apply suppress findings, one row for each distinct place. Other rows may refer to one that is gone.
CREATE TABLE IF NOT EXISTS reaches (
    id     BIGINT NOT NULL AUTO_INCREMENT,
    digest VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of spec
    spec   LONGTEXT NOT NULL, -- JSON
    PRIMARY KEY (id),
    UNIQUE (digest)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE reaches;
