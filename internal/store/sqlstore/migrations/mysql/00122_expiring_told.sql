-- +goose NO TRANSACTION
-- +goose Up
-- The decisions of which an event said that they expire soon.
CREATE TABLE IF NOT EXISTS expiring_told (
    decision_pk BIGINT NOT NULL,
    PRIMARY KEY (decision_pk),
    FOREIGN KEY (decision_pk) REFERENCES decisions (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE expiring_told;
