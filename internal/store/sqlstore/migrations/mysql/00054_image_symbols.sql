-- +goose NO TRANSACTION
-- +goose Up
-- Images whose SBOM has symbol tables of Go binaries: 1 while the SBOM has to be read again with what advisories name, 2 afterwards.
CREATE TABLE IF NOT EXISTS image_symbols (
    image_pk BIGINT NOT NULL,
    state    BIGINT NOT NULL,
    PRIMARY KEY (image_pk),
    KEY image_symbols_state (state),
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE image_symbols;
