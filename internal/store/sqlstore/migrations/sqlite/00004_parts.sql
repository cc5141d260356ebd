-- SBOMs and reports in parts of 4 MiB, as other databases need them.

-- +goose Up
CREATE TABLE sbom_parts (
    image_pk BIGINT NOT NULL REFERENCES sboms (image_pk) ON DELETE CASCADE,
    part     BIGINT NOT NULL,
    content  BLOB   NOT NULL,
    PRIMARY KEY (image_pk, part)
);
INSERT INTO sbom_parts (image_pk, part, content)
    WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < (SELECT MAX(LENGTH(content)) FROM sboms) / 4194304)
    SELECT s.image_pk, numbers.n, SUBSTR(s.content, numbers.n * 4194304 + 1, 4194304)
    FROM sboms s JOIN numbers ON numbers.n * 4194304 < LENGTH(s.content);
ALTER TABLE sboms DROP COLUMN content;

CREATE TABLE report_parts (
    report_pk BIGINT NOT NULL REFERENCES reports (id) ON DELETE CASCADE,
    part      BIGINT NOT NULL,
    content   BLOB   NOT NULL,
    PRIMARY KEY (report_pk, part)
);
INSERT INTO report_parts (report_pk, part, content)
    WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < (SELECT MAX(LENGTH(content)) FROM reports) / 4194304)
    SELECT r.id, numbers.n, SUBSTR(r.content, numbers.n * 4194304 + 1, 4194304)
    FROM reports r JOIN numbers ON numbers.n * 4194304 < LENGTH(r.content);
ALTER TABLE reports DROP COLUMN content;

-- +goose Down
ALTER TABLE reports ADD COLUMN content BLOB NOT NULL DEFAULT x'';
UPDATE reports SET content = UNHEX(COALESCE((SELECT GROUP_CONCAT(HEX(p.content), '')
    FROM (SELECT content FROM report_parts WHERE report_pk = reports.id ORDER BY part) p), ''));
DROP TABLE report_parts;
ALTER TABLE sboms ADD COLUMN content BLOB NOT NULL DEFAULT x'';
UPDATE sboms SET content = UNHEX(COALESCE((SELECT GROUP_CONCAT(HEX(p.content), '')
    FROM (SELECT content FROM sbom_parts WHERE image_pk = sboms.image_pk ORDER BY part) p), ''));
DROP TABLE sbom_parts;
