-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS policies (
    id      BIGINT NOT NULL AUTO_INCREMENT,
    name    VARCHAR(255) NOT NULL,
    digest  VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    spec    LONGTEXT NOT NULL, -- as JSON
    applies BIGINT NOT NULL, -- 0: it would have more rows than the bounds allow
    placed  BIGINT NOT NULL, -- 1: it selects the places in policy_places, and not all
    failure VARCHAR(2048) NOT NULL,
    since   BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE INDEX policies_name (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE policies;
