-- +goose NO TRANSACTION
-- +goose Up
-- The spellings under which decisions that apply name vulnerabilities; '' for those that name none.
CREATE TABLE IF NOT EXISTS decision_names (
    name        VARCHAR(255) NOT NULL,
    decision_pk BIGINT NOT NULL,
    PRIMARY KEY (name, decision_pk),
    INDEX decision_names_decision (decision_pk),
    FOREIGN KEY (decision_pk) REFERENCES decisions (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE decision_names;
