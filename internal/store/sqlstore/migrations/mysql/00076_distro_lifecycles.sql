-- +goose NO TRANSACTION
-- +goose Up
-- What the database build says of a distribution, as images.distro names it; 0 for a date that it does not state.
CREATE TABLE IF NOT EXISTS distro_lifecycles (
    distro         VARCHAR(255) NOT NULL,
    build_id       VARCHAR(255) NOT NULL,
    end_of_life    BIGINT NOT NULL,
    end_of_support BIGINT NOT NULL,
    PRIMARY KEY (distro)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE distro_lifecycles;
