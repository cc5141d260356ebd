-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS tag_closings (
    fix_pk BIGINT NOT NULL,
    finding_id BIGINT NOT NULL,
    package_pk BIGINT NOT NULL, -- that of the finding
    PRIMARY KEY (fix_pk, finding_id),
    INDEX tag_closings_package (package_pk, fix_pk),
    FOREIGN KEY (fix_pk) REFERENCES tag_fixes (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE tag_closings;
