-- +goose NO TRANSACTION
-- +goose Up
-- Of each result set that is or was current, the packages of the changes that are alike, as one text: an ID per change. Of result sets without rows,
-- finding_changes is read.
CREATE TABLE IF NOT EXISTS change_packages (
    generation BIGINT NOT NULL,
    severity   BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    kind       BIGINT NOT NULL,
    -- Whether the vulnerability is known to be exploited since these changes, and whether they are about some of the images that hold a package: their packages are not listed.
    newly_kev  BIGINT NOT NULL,
    partly     BIGINT NOT NULL,
    changes    BIGINT NOT NULL,
    packages   LONGTEXT NOT NULL,
    PRIMARY KEY (generation, severity, kev, kind, newly_kev, partly),
    FOREIGN KEY (generation) REFERENCES generations (number) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE change_packages;
