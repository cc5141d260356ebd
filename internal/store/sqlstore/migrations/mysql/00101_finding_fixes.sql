-- +goose NO TRANSACTION
-- +goose Up
-- Since when a fixed version is known without a break, of findings with one; 0 while their result set is not current.
CREATE TABLE IF NOT EXISTS finding_fixes (
    finding_id BIGINT NOT NULL,
    since      BIGINT NOT NULL,
    PRIMARY KEY (finding_id),
    FOREIGN KEY (finding_id) REFERENCES findings (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE finding_fixes;
