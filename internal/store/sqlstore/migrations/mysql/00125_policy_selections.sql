-- +goose NO TRANSACTION
-- +goose Up
-- A digest of what each policy with selectors selects.
CREATE TABLE IF NOT EXISTS policy_selections (
    policy_pk BIGINT NOT NULL,
    digest    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (policy_pk),
    FOREIGN KEY (policy_pk) REFERENCES policies (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE policy_selections;
