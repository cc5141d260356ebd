-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS report_parts (
    report_pk BIGINT NOT NULL,
    part      BIGINT NOT NULL,
    content   LONGBLOB NOT NULL,
    PRIMARY KEY (report_pk, part),
    FOREIGN KEY (report_pk) REFERENCES reports (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE report_parts;
