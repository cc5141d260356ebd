-- Times are microseconds since 1970 in UTC, 0 for none. Booleans are 0 and 1. Text compares byte by byte.

-- +goose Up
CREATE TABLE vulnerability_databases (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    build_id       TEXT    NOT NULL,
    schema_version TEXT    NOT NULL,
    built          BIGINT  NOT NULL,
    source         TEXT    NOT NULL,
    recorded_at    BIGINT  NOT NULL,
    -- The build with the greatest number is in use; 0: only images were matched under it.
    in_use         BIGINT  NOT NULL,
    UNIQUE (build_id)
);

CREATE TABLE images (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    image_id        TEXT    NOT NULL,
    platform        TEXT    NOT NULL,
    repository      TEXT    NOT NULL,
    digest          TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    nonce           TEXT    NOT NULL,
    attempts        BIGINT  NOT NULL,
    reason          TEXT    NOT NULL,
    message         TEXT    NOT NULL,
    next_attempt_at BIGINT  NOT NULL,
    distro          TEXT    NOT NULL,
    size            BIGINT  NOT NULL,
    package_count   BIGINT  NOT NULL,
    critical        BIGINT  NOT NULL,
    high            BIGINT  NOT NULL,
    medium          BIGINT  NOT NULL,
    low             BIGINT  NOT NULL,
    negligible      BIGINT  NOT NULL,
    unknown         BIGINT  NOT NULL,
    kev             BIGINT  NOT NULL,
    fixable         BIGINT  NOT NULL,
    database_id     BIGINT  REFERENCES vulnerability_databases (id),
    first_seen      BIGINT  NOT NULL,
    catalogued_at   BIGINT  NOT NULL,
    matched_at      BIGINT  NOT NULL,
    sbom_sha256     TEXT    NOT NULL,
    sbom_size       BIGINT  NOT NULL,
    UNIQUE (image_id, platform)
);
CREATE INDEX images_digest ON images (digest);
CREATE INDEX images_database ON images (database_id);
CREATE INDEX images_severity ON images (critical DESC, high DESC, medium DESC, low DESC, image_id, platform);

CREATE TABLE sboms (
    image_pk   BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    media_type TEXT   NOT NULL,
    sha256     TEXT   NOT NULL,
    size       BIGINT NOT NULL,
    content    BLOB   NOT NULL
);

CREATE TABLE packages (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL,
    name        TEXT NOT NULL,
    version     TEXT NOT NULL,
    type        TEXT NOT NULL,
    language    TEXT NOT NULL,
    purl        TEXT NOT NULL,
    distro      TEXT NOT NULL,
    licenses    TEXT NOT NULL,
    cpes        TEXT NOT NULL,
    match_input BLOB,
    UNIQUE (fingerprint)
);

CREATE TABLE image_packages (
    image_pk   BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    package_pk BIGINT NOT NULL REFERENCES packages (id),
    excluded   BIGINT NOT NULL,
    locations  TEXT   NOT NULL,
    PRIMARY KEY (image_pk, package_pk)
) WITHOUT ROWID;
CREATE INDEX image_packages_package ON image_packages (package_pk);

CREATE TABLE vulnerabilities (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    database_id      BIGINT NOT NULL REFERENCES vulnerability_databases (id),
    namespace        TEXT   NOT NULL,
    vulnerability_id TEXT   NOT NULL,
    severity         BIGINT NOT NULL,
    -- Probabilities and risk in millionths, so that they sort and compare the same everywhere.
    epss_micros      BIGINT NOT NULL,
    risk_micros      BIGINT NOT NULL,
    kev              BIGINT NOT NULL,
    detail           TEXT   NOT NULL,
    UNIQUE (database_id, vulnerability_id, namespace)
);
CREATE INDEX vulnerabilities_vulnerability ON vulnerabilities (vulnerability_id);

-- A row says that the findings of the package under that build are complete; there may be none.
CREATE TABLE package_matches (
    package_pk  BIGINT NOT NULL REFERENCES packages (id),
    database_id BIGINT NOT NULL REFERENCES vulnerability_databases (id),
    PRIMARY KEY (package_pk, database_id)
) WITHOUT ROWID;
CREATE INDEX package_matches_database ON package_matches (database_id, package_pk);

CREATE TABLE findings (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    database_id      BIGINT NOT NULL REFERENCES vulnerability_databases (id),
    package_pk       BIGINT NOT NULL REFERENCES packages (id),
    vulnerability_pk BIGINT NOT NULL REFERENCES vulnerabilities (id),
    fix_state        TEXT   NOT NULL,
    fixable          BIGINT NOT NULL,
    fix_versions     TEXT   NOT NULL,
    details          TEXT   NOT NULL,
    UNIQUE (package_pk, database_id, vulnerability_pk)
);
CREATE INDEX findings_database ON findings (database_id, id);
CREATE INDEX findings_vulnerability ON findings (vulnerability_pk);

CREATE TABLE image_exclusions (
    image_pk         BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    package_pk       BIGINT NOT NULL REFERENCES packages (id),
    vulnerability_id TEXT   NOT NULL,
    namespace        TEXT   NOT NULL,
    PRIMARY KEY (image_pk, package_pk, vulnerability_id, namespace)
) WITHOUT ROWID;
CREATE INDEX image_exclusions_package ON image_exclusions (package_pk);

CREATE TABLE reports (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    image_id   TEXT    NOT NULL,
    saved_at   BIGINT  NOT NULL,
    critical   BIGINT  NOT NULL,
    high       BIGINT  NOT NULL,
    medium     BIGINT  NOT NULL,
    low        BIGINT  NOT NULL,
    negligible BIGINT  NOT NULL,
    unknown    BIGINT  NOT NULL,
    kev        BIGINT  NOT NULL,
    fixable    BIGINT  NOT NULL,
    size       BIGINT  NOT NULL,
    content    BLOB    NOT NULL,
    UNIQUE (image_id)
);

CREATE TABLE events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    at       BIGINT NOT NULL,
    kind     TEXT   NOT NULL,
    image_id TEXT   NOT NULL,
    platform TEXT   NOT NULL,
    data     TEXT   NOT NULL
);

-- +goose Down
DROP TABLE events;
DROP TABLE reports;
DROP TABLE image_exclusions;
DROP TABLE findings;
DROP TABLE package_matches;
DROP TABLE vulnerabilities;
DROP TABLE image_packages;
DROP TABLE packages;
DROP TABLE sboms;
DROP TABLE images;
DROP TABLE vulnerability_databases;
