-- Until when findings are due.

-- +goose Up
-- Since when a fixed version is known without a break, of findings with one; 0 while their result set is not current.
CREATE TABLE finding_fixes (
    finding_id BIGINT NOT NULL PRIMARY KEY REFERENCES findings (id) ON DELETE CASCADE,
    since      BIGINT NOT NULL
);
INSERT INTO finding_fixes (finding_id, since)
    SELECT f.id, COALESCE(g.current_since, 0) FROM findings f LEFT JOIN generations g ON g.number = f.from_gen WHERE f.fixable = 1;
CREATE TABLE policies (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT   NOT NULL,
    digest  TEXT   NOT NULL,
    spec    TEXT   NOT NULL, -- as JSON
    applies BIGINT NOT NULL, -- 0: it would have more rows than the bounds allow
    placed  BIGINT NOT NULL, -- 1: it selects the places in policy_places, and not all
    failure TEXT   NOT NULL,
    since   BIGINT NOT NULL,
    UNIQUE (name)
);
-- What policies say of findings, without regard to the place: due so many days after since, or after the image has findings.
CREATE TABLE policy_findings (
    finding_id BIGINT NOT NULL REFERENCES findings (id) ON DELETE CASCADE,
    policy_pk  BIGINT NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    days       BIGINT NOT NULL,
    since      BIGINT NOT NULL, -- 0: when the result set of the finding becomes current
    PRIMARY KEY (finding_id, policy_pk, days)
) WITHOUT ROWID;
CREATE INDEX policy_findings_policy ON policy_findings (policy_pk, finding_id);
CREATE TABLE policy_places (
    policy_pk BIGINT NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    namespace TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    PRIMARY KEY (image_pk, policy_pk, namespace, kind, name)
) WITHOUT ROWID;
CREATE INDEX policy_places_policy ON policy_places (policy_pk, image_pk);
-- Until when dates that passed have been told by events: one row with id 1.
CREATE TABLE deadlines_told (
    id         BIGINT NOT NULL PRIMARY KEY,
    told_until BIGINT NOT NULL
);

-- +goose Down
DROP TABLE deadlines_told;
DROP TABLE policy_places;
DROP TABLE policy_findings;
DROP TABLE policies;
DROP TABLE finding_fixes;
