-- Findings belong to packages and to generations of answers instead of database builds. A row with from_gen and until_gen is
-- visible under generation g when from_gen <= g < until_gen; until_gen is 9223372036854775807 while nothing has ended it.

-- +goose Up
DROP TABLE image_exclusions;
DROP TABLE findings;
DROP TABLE package_matches;
DROP TABLE vulnerabilities;
DROP INDEX images_database;
ALTER TABLE images DROP COLUMN database_id;
DROP TABLE vulnerability_databases;

-- The version of the rules that the SBOM was read by; 0: by those before there were versions.
ALTER TABLE images ADD COLUMN projection BIGINT NOT NULL DEFAULT 0;
-- What was scanned waits to be read and matched anew. Its counts are those of its report, if it has one.
UPDATE images SET state = 'Catalogued', reason = '', message = '' WHERE sbom_sha256 <> '';
UPDATE images SET matched_at = 0,
    critical = COALESCE((SELECT r.critical FROM reports r WHERE r.image_id = images.image_id), 0),
    high = COALESCE((SELECT r.high FROM reports r WHERE r.image_id = images.image_id), 0),
    medium = COALESCE((SELECT r.medium FROM reports r WHERE r.image_id = images.image_id), 0),
    low = COALESCE((SELECT r.low FROM reports r WHERE r.image_id = images.image_id), 0),
    negligible = COALESCE((SELECT r.negligible FROM reports r WHERE r.image_id = images.image_id), 0),
    unknown = COALESCE((SELECT r.unknown FROM reports r WHERE r.image_id = images.image_id), 0),
    kev = COALESCE((SELECT r.kev FROM reports r WHERE r.image_id = images.image_id), 0),
    fixable = COALESCE((SELECT r.fixable FROM reports r WHERE r.image_id = images.image_id), 0);
CREATE INDEX images_state ON images (state, image_id, platform);

-- What an image says of a package beside what matching reads, where it is not what the package's row says.
ALTER TABLE image_packages ADD COLUMN own TEXT NOT NULL DEFAULT '';

-- Finds the images of a package without a look at their rows.
DROP INDEX image_packages_package;
CREATE INDEX image_packages_package ON image_packages (package_pk, excluded, image_pk);

CREATE TABLE generations (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    build_id        TEXT    NOT NULL,
    schema_version  TEXT    NOT NULL,
    built           BIGINT  NOT NULL,
    source          TEXT    NOT NULL,
    engine          TEXT    NOT NULL,
    previous_build  TEXT    NOT NULL,
    full_match      BIGINT  NOT NULL,
    -- Beside the states that are shown: Discarded, while what it wrote is being removed.
    state           TEXT    NOT NULL,
    started_at      BIGINT  NOT NULL,
    current_since   BIGINT  NOT NULL,
    queued          BIGINT  NOT NULL,
    matched         BIGINT  NOT NULL,
    opened          BIGINT  NOT NULL,
    closed          BIGINT  NOT NULL,
    changed         BIGINT  NOT NULL,
    images          BIGINT  NOT NULL,
    opened_critical BIGINT  NOT NULL,
    new_kev         BIGINT  NOT NULL
);
CREATE INDEX generations_state ON generations (state);
CREATE INDEX generations_build ON generations (build_id);

-- A row says that the findings of the package are complete; there may be none.
CREATE TABLE package_answers (
    package_pk  BIGINT NOT NULL REFERENCES packages (id),
    from_gen    BIGINT NOT NULL,
    until_gen   BIGINT NOT NULL,
    failure     TEXT   NOT NULL,
    -- 8 bytes for each key, big-endian.
    search_keys BLOB   NOT NULL,
    PRIMARY KEY (package_pk, from_gen)
) WITHOUT ROWID;
CREATE INDEX package_answers_from ON package_answers (from_gen, package_pk);
CREATE INDEX package_answers_until ON package_answers (until_gen, package_pk);

-- What never changes about a vulnerability is what the digest is of, and in vulnerability_details: rows with other content are
-- other vulnerabilities. The scores change with the generations.
CREATE TABLE vulnerabilities (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    digest           TEXT    NOT NULL,
    vulnerability_id TEXT    NOT NULL,
    namespace        TEXT    NOT NULL,
    severity         BIGINT  NOT NULL,
    -- The generation whose scores it had first.
    from_gen         BIGINT  NOT NULL,
    -- Probabilities and risk in millionths, so that they sort and compare the same everywhere.
    epss_micros      BIGINT  NOT NULL,
    risk_micros      BIGINT  NOT NULL,
    kev              BIGINT  NOT NULL,
    scores           TEXT    NOT NULL,
    UNIQUE (digest)
);
CREATE INDEX vulnerabilities_vulnerability ON vulnerabilities (vulnerability_id);
CREATE INDEX vulnerabilities_from ON vulnerabilities (from_gen, id);

CREATE TABLE vulnerability_details (
    vulnerability_pk BIGINT NOT NULL PRIMARY KEY REFERENCES vulnerabilities (id) ON DELETE CASCADE,
    detail           TEXT   NOT NULL
);

-- The scores that vulnerabilities will have when the next generation becomes current.
CREATE TABLE staged_scores (
    vulnerability_pk BIGINT NOT NULL PRIMARY KEY REFERENCES vulnerabilities (id) ON DELETE CASCADE,
    epss_micros      BIGINT NOT NULL,
    risk_micros      BIGINT NOT NULL,
    kev              BIGINT NOT NULL,
    scores           TEXT   NOT NULL
);

CREATE TABLE findings (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    package_pk       BIGINT NOT NULL REFERENCES packages (id),
    vulnerability_pk BIGINT NOT NULL REFERENCES vulnerabilities (id),
    -- Of all that the finding says, the vulnerability among it.
    digest           TEXT   NOT NULL,
    from_gen         BIGINT NOT NULL,
    until_gen        BIGINT NOT NULL,
    fix_state        TEXT   NOT NULL,
    fixable          BIGINT NOT NULL,
    fix_versions     TEXT   NOT NULL,
    details          TEXT   NOT NULL,
    UNIQUE (package_pk, digest, from_gen)
);
CREATE INDEX findings_from ON findings (from_gen, package_pk);
CREATE INDEX findings_until ON findings (until_gen, package_pk);
CREATE INDEX findings_vulnerability ON findings (vulnerability_pk);

-- The packages that have to be matched for the next generation.
CREATE TABLE rematch_queue (
    package_pk BIGINT NOT NULL PRIMARY KEY REFERENCES packages (id) ON DELETE CASCADE
);

CREATE TABLE finding_changes (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    generation       BIGINT NOT NULL REFERENCES generations (number),
    package_pk       BIGINT NOT NULL REFERENCES packages (id),
    vulnerability_id TEXT   NOT NULL,
    namespace        TEXT   NOT NULL,
    -- The worse severity of both sides, and whether it is known to be exploited afterwards.
    severity         BIGINT NOT NULL,
    kev              BIGINT NOT NULL,
    -- 0 opened, 1 closed, 2 changed: the order in lists.
    kind             BIGINT NOT NULL,
    reasons          TEXT   NOT NULL,
    before_side      TEXT   NOT NULL,
    after_side       TEXT   NOT NULL
);
CREATE INDEX finding_changes_worst ON finding_changes (generation DESC, severity DESC, kev DESC, kind, id);
CREATE INDEX finding_changes_package ON finding_changes (package_pk);

CREATE TABLE image_uses (
    scope     TEXT   NOT NULL,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    namespace TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    container TEXT   NOT NULL,
    PRIMARY KEY (scope, image_pk, namespace, kind, name, container)
) WITHOUT ROWID;
CREATE INDEX image_uses_image ON image_uses (image_pk, scope);

-- +goose Down
DROP TABLE image_uses;
DROP TABLE finding_changes;
DROP TABLE rematch_queue;
DROP TABLE findings;
DROP TABLE staged_scores;
DROP TABLE vulnerability_details;
DROP TABLE vulnerabilities;
DROP TABLE package_answers;
DROP TABLE generations;
DROP INDEX image_packages_package;
CREATE INDEX image_packages_package ON image_packages (package_pk);
DROP INDEX images_state;
ALTER TABLE images DROP COLUMN projection;
ALTER TABLE image_packages DROP COLUMN own;

CREATE TABLE vulnerability_databases (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    build_id       TEXT    NOT NULL,
    schema_version TEXT    NOT NULL,
    built          BIGINT  NOT NULL,
    source         TEXT    NOT NULL,
    recorded_at    BIGINT  NOT NULL,
    in_use         BIGINT  NOT NULL,
    UNIQUE (build_id)
);
ALTER TABLE images ADD COLUMN database_id BIGINT REFERENCES vulnerability_databases (id);
CREATE INDEX images_database ON images (database_id);
UPDATE images SET state = 'Catalogued', matched_at = 0 WHERE sbom_sha256 <> '';

CREATE TABLE vulnerabilities (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    database_id      BIGINT NOT NULL REFERENCES vulnerability_databases (id),
    namespace        TEXT   NOT NULL,
    vulnerability_id TEXT   NOT NULL,
    severity         BIGINT NOT NULL,
    epss_micros      BIGINT NOT NULL,
    risk_micros      BIGINT NOT NULL,
    kev              BIGINT NOT NULL,
    detail           TEXT   NOT NULL,
    UNIQUE (database_id, vulnerability_id, namespace)
);
CREATE INDEX vulnerabilities_vulnerability ON vulnerabilities (vulnerability_id);

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
