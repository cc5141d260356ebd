-- Images whose SBOM has symbol tables of Go binaries: 1 while the SBOM has to be read again with what advisories name, 2 afterwards.

-- +goose Up
CREATE TABLE image_symbols (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    state    BIGINT NOT NULL
);
CREATE INDEX image_symbols_state ON image_symbols (state);

-- +goose Down
DROP TABLE image_symbols;
