PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO goose_db_version VALUES(1,0,1,'2026-11-22 06:45:03');
INSERT INTO goose_db_version VALUES(2,1,1,'2026-11-22 06:45:03');
INSERT INTO goose_db_version VALUES(3,2,1,'2026-11-22 06:45:03');
INSERT INTO goose_db_version VALUES(4,3,1,'2026-11-22 06:45:03');
INSERT INTO goose_db_version VALUES(5,4,1,'2026-11-22 06:45:03');
INSERT INTO goose_db_version VALUES(6,5,1,'2026-11-22 06:45:03');
INSERT INTO goose_db_version VALUES(7,6,1,'2026-11-22 06:45:03');
INSERT INTO goose_db_version VALUES(8,7,1,'2026-11-22 06:45:03');
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
    first_seen      BIGINT  NOT NULL,
    catalogued_at   BIGINT  NOT NULL,
    matched_at      BIGINT  NOT NULL,
    sbom_sha256     TEXT    NOT NULL,
    sbom_size       BIGINT  NOT NULL, projection BIGINT NOT NULL DEFAULT 0, from_report BIGINT NOT NULL DEFAULT 0, queued BIGINT NOT NULL DEFAULT 0,
    UNIQUE (image_id, platform)
);
INSERT INTO images VALUES(1,'registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000001','linux/amd64','registry.example/web','sha256:0000000000000000000000000000000000000000000000000000000000000001','Scanned','6yhpc3buj3ocbjma',0,'','',0,'debian:12',12345,2,0,2,1,0,0,0,3,1,1795161600000000,1795161600000000,1795161600000000,'0000000000000000000000000000000000000000000000000000000000000001',99,0,0,0);
INSERT INTO images VALUES(2,'registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002','linux/amd64','registry.example/web','sha256:0000000000000000000000000000000000000000000000000000000000000002','Scanned','yjvejygojs5dqzwu',0,'','',0,'debian:12',12345,2,0,1,1,0,0,0,2,1,1795161600000000,1795161600000000,1795161600000000,'0000000000000000000000000000000000000000000000000000000000000002',99,0,0,0);
INSERT INTO images VALUES(3,'registry.example/broken@sha256:0000000000000000000000000000000000000000000000000000000000000003','linux/amd64','registry.example/broken','sha256:0000000000000000000000000000000000000000000000000000000000000003','Failed','3r7g6bqyvq5g7gks',1,'ImagePullDenied','no credentials',1795176060000000,'',0,0,0,0,0,0,0,0,0,0,1795161600000000,0,0,'',0,0,0,0);
INSERT INTO images VALUES(4,'registry.example/waiting@sha256:0000000000000000000000000000000000000000000000000000000000000004','linux/amd64','registry.example/waiting','sha256:0000000000000000000000000000000000000000000000000000000000000004','Pending','aegn6mmvpypbnsj5',0,'','',0,'',0,0,0,0,0,0,0,0,0,0,1795161600000000,0,0,'',0,0,0,0);
INSERT INTO images VALUES(5,'registry.example/reported@sha256:5555555555555555555555555555555555555555555555555555555555555555','','registry.example/reported','sha256:5555555555555555555555555555555555555555555555555555555555555555','Reported','yr6ja3gmhtxgo6yl',0,'','',0,'',0,0,0,0,0,0,0,0,0,0,1795161600000000,0,0,'',0,0,0,0);
CREATE TABLE sboms (
    image_pk   BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    media_type TEXT   NOT NULL,
    sha256     TEXT   NOT NULL,
    size       BIGINT NOT NULL);
INSERT INTO sboms VALUES(1,'application/vnd.syft+json','0000000000000000000000000000000000000000000000000000000000000001',99);
INSERT INTO sboms VALUES(2,'application/vnd.syft+json','0000000000000000000000000000000000000000000000000000000000000002',99);
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
INSERT INTO packages VALUES(1,'000000000000000000000000000000000000000000000000006f70656e73736c','openssl','1.0','deb','c','pkg:deb/debian/openssl@1.0','debian:12','["MIT"]','["cpe:2.3:a:openssl:openssl:1.0:*:*:*:*:*:*:*"]',X'7b22757073747265616d73223a5b5d7d');
INSERT INTO packages VALUES(2,'000000000000000000000000000000000000000000000000000000007a6c6962','zlib','1.0','deb','c','pkg:deb/debian/zlib@1.0','debian:12','["MIT"]','["cpe:2.3:a:zlib:zlib:1.0:*:*:*:*:*:*:*"]',X'7b22757073747265616d73223a5b5d7d');
INSERT INTO packages VALUES(3,'000000000000000000000000000000000000000000000000000000006375726c','curl','1.0','deb','c','pkg:deb/debian/curl@1.0','debian:12','["MIT"]','["cpe:2.3:a:curl:curl:1.0:*:*:*:*:*:*:*"]',X'7b22757073747265616d73223a5b5d7d');
CREATE TABLE image_packages (
    image_pk   BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    package_pk BIGINT NOT NULL REFERENCES packages (id),
    excluded   BIGINT NOT NULL,
    locations  TEXT   NOT NULL, own TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (image_pk, package_pk)
) WITHOUT ROWID;
INSERT INTO image_packages VALUES(1,1,0,'[{"path":"/usr/lib/openssl","layer":"sha256:1"}]','');
INSERT INTO image_packages VALUES(1,2,0,'[{"path":"/usr/lib/zlib","layer":"sha256:1"}]','');
INSERT INTO image_packages VALUES(2,1,0,'[{"path":"/usr/lib/openssl","layer":"sha256:1"}]','');
INSERT INTO image_packages VALUES(2,3,0,'[{"path":"/usr/lib/curl","layer":"sha256:1"}]','');
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
    UNIQUE (image_id)
);
INSERT INTO reports VALUES(1,'registry.example/reported@sha256:5555555555555555555555555555555555555555555555555555555555555555',1795161600000000,0,0,0,0,0,0,0,0,25);
CREATE TABLE events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    at       BIGINT NOT NULL,
    kind     TEXT   NOT NULL,
    image_id TEXT   NOT NULL,
    platform TEXT   NOT NULL,
    data     TEXT   NOT NULL
);
INSERT INTO events VALUES(1,1795161600000000,'database.updated','','','{"id":"xxh64:1","schemaVersion":"v6.1.0","built":"2026-11-19T18:00:00Z","source":"official","previousBuild":"","changes":{"opened":0,"closed":0,"changed":0,"images":0,"openedCritical":0,"newKev":0},"omitted":0}');
INSERT INTO events VALUES(2,1795161600000000,'image.discovered','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000001','linux/amd64','{}');
INSERT INTO events VALUES(3,1795161600000000,'image.discovered','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002','linux/amd64','{}');
INSERT INTO events VALUES(4,1795161600000000,'image.discovered','registry.example/broken@sha256:0000000000000000000000000000000000000000000000000000000000000003','linux/amd64','{}');
INSERT INTO events VALUES(5,1795161600000000,'image.discovered','registry.example/waiting@sha256:0000000000000000000000000000000000000000000000000000000000000004','linux/amd64','{}');
INSERT INTO events VALUES(6,1795161600000000,'image.catalogued','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000001','linux/amd64','{"packages":2,"distro":"debian:12","size":12345}');
INSERT INTO events VALUES(7,1795161600000000,'image.matched','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000001','linux/amd64','{"database":"xxh64:1","counts":{"critical":1,"high":1,"medium":0,"low":1,"negligible":0,"unknown":0,"kev":3,"fixable":1}}');
INSERT INTO events VALUES(8,1795161600000000,'image.catalogued','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002','linux/amd64','{"packages":2,"distro":"debian:12","size":12345}');
INSERT INTO events VALUES(9,1795161600000000,'image.matched','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002','linux/amd64','{"database":"xxh64:1","counts":{"critical":1,"high":0,"medium":0,"low":1,"negligible":0,"unknown":0,"kev":2,"fixable":1}}');
INSERT INTO events VALUES(10,1795161600000000,'image.reported','registry.example/reported@sha256:5555555555555555555555555555555555555555555555555555555555555555','','{"counts":{"critical":0,"high":0,"medium":0,"low":0,"negligible":0,"unknown":0,"kev":0,"fixable":0}}');
INSERT INTO events VALUES(11,1795168800000000,'rollout.changed','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002','linux/amd64','{"workload":{"namespace":"shop","kind":"Deployment","name":"web"},"container":"web","from":{"imageId":"registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000001","platform":"linux/amd64"},"to":{"imageId":"registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002","platform":"linux/amd64"}}');
INSERT INTO events VALUES(12,1795176000000000,'image.failed','registry.example/broken@sha256:0000000000000000000000000000000000000000000000000000000000000003','linux/amd64','{"reason":"ImagePullDenied","message":"no credentials","attempt":0,"nextAttempt":"2026-11-20T12:01:00Z"}');
INSERT INTO events VALUES(13,1795179600000000,'database.updated','','','{"id":"xxh64:2","schemaVersion":"v6.1.0","built":"2026-11-20T18:00:00Z","source":"official","previousBuild":"xxh64:1","changes":{"opened":1,"closed":1,"changed":1,"images":2,"openedCritical":0,"newKev":1},"omitted":0}');
INSERT INTO events VALUES(14,1795179600000000,'finding.changed','','','{"build":"xxh64:2","previousBuild":"xxh64:1","package":"openssl","version":"1.0","type":"deb","vulnerabilityId":"CVE-2026-1","namespace":"debian:distro:debian:12","severity":"High","kev":true,"reasons":["severity","fix"],"images":2}');
INSERT INTO events VALUES(15,1795179600000000,'finding.opened','','','{"build":"xxh64:2","previousBuild":"xxh64:1","package":"openssl","version":"1.0","type":"deb","vulnerabilityId":"CVE-2026-4","namespace":"debian:distro:debian:12","severity":"Medium","kev":true,"images":2}');
INSERT INTO events VALUES(16,1795179600000000,'finding.closed','','','{"build":"xxh64:2","previousBuild":"xxh64:1","package":"openssl","version":"1.0","type":"deb","vulnerabilityId":"CVE-2026-2","namespace":"debian:distro:debian:12","severity":"Low","kev":true,"images":2}');
INSERT INTO events VALUES(17,1795179600000000,'image.matched','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000001','linux/amd64','{"database":"xxh64:2","counts":{"critical":0,"high":2,"medium":1,"low":0,"negligible":0,"unknown":0,"kev":3,"fixable":1}}');
INSERT INTO events VALUES(18,1795179600000000,'image.matched','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002','linux/amd64','{"database":"xxh64:2","counts":{"critical":0,"high":1,"medium":1,"low":0,"negligible":0,"unknown":0,"kev":2,"fixable":1}}');
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
INSERT INTO generations VALUES(1,'xxh64:1','v6.1.0',1795111200000000,'official','grype v0.116.0','',1,'Past',1795161600000000,1795161600000000,0,0,0,0,0,0,0,0);
INSERT INTO generations VALUES(2,'xxh64:2','v6.1.0',1795197600000000,'official','grype v0.116.0','xxh64:1',0,'Current',1795179600000000,1795179600000000,3,3,1,1,1,2,0,1);
CREATE TABLE package_answers (
    package_pk  BIGINT NOT NULL REFERENCES packages (id),
    from_gen    BIGINT NOT NULL,
    until_gen   BIGINT NOT NULL,
    failure     TEXT   NOT NULL,
    -- 8 bytes for each key, big-endian.
    search_keys BLOB   NOT NULL,
    PRIMARY KEY (package_pk, from_gen)
) WITHOUT ROWID;
INSERT INTO package_answers VALUES(1,1,2,'',X'000000000000000100000000000000020000000000000003');
INSERT INTO package_answers VALUES(1,2,9223372036854775807,'',X'0000000000000001');
INSERT INTO package_answers VALUES(2,1,2,'',X'00000000000000010000000000000002');
INSERT INTO package_answers VALUES(2,2,9223372036854775807,'',X'0000000000000001');
INSERT INTO package_answers VALUES(3,1,9223372036854775807,'',X'0000000000000001');
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
INSERT INTO vulnerabilities VALUES(1,'2c674c816460bb39ae3426839f33b764','CVE-2026-1','debian:distro:debian:12',5,1,500000,42125000,1,'{"epss":{"cve":"CVE-2026-1","score":0.5,"percentile":0.9},"kev":[{"cve":"CVE-2026-1"}],"risk":42.125}');
INSERT INTO vulnerabilities VALUES(2,'8f78b416fddfe72f2f31af0da6c35244','CVE-2026-2','debian:distro:debian:12',2,1,500000,42125000,1,'{"epss":{"cve":"CVE-2026-2","score":0.5,"percentile":0.9},"kev":[{"cve":"CVE-2026-2"}],"risk":42.125}');
INSERT INTO vulnerabilities VALUES(3,'bef9437bcf177d250855ed82de95e73b','CVE-2026-3','debian:distro:debian:12',4,1,500000,42125000,1,'{"epss":{"cve":"CVE-2026-3","score":0.5,"percentile":0.9},"kev":[{"cve":"CVE-2026-3"}],"risk":42.125}');
INSERT INTO vulnerabilities VALUES(4,'eacbed745695c7a01bd58fe7c43c8273','CVE-2026-4','debian:distro:debian:12',3,2,500000,42125000,1,'{"epss":{"cve":"CVE-2026-4","score":0.5,"percentile":0.9},"kev":[{"cve":"CVE-2026-4"}],"risk":42.125}');
INSERT INTO vulnerabilities VALUES(5,'f2712b0cfdbef36bd101d763748d6706','CVE-2026-1','debian:distro:debian:12',4,2,500000,42125000,1,'{"epss":{"cve":"CVE-2026-1","score":0.5,"percentile":0.9},"kev":[{"cve":"CVE-2026-1"}],"risk":42.125}');
CREATE TABLE vulnerability_details (
    vulnerability_pk BIGINT NOT NULL PRIMARY KEY REFERENCES vulnerabilities (id) ON DELETE CASCADE,
    detail           TEXT   NOT NULL
);
INSERT INTO vulnerability_details VALUES(1,'{"id":"CVE-2026-1","namespace":"debian:distro:debian:12","aliases":["GHSA-CVE-2026-1"],"severity":"Critical","description":"A flaw.","urls":["https://example.org/CVE-2026-1"],"cvss":[{"version":"3.1","vector":"AV:N","score":7.5}],"risk":0}');
INSERT INTO vulnerability_details VALUES(2,'{"id":"CVE-2026-2","namespace":"debian:distro:debian:12","aliases":["GHSA-CVE-2026-2"],"severity":"Low","description":"A flaw.","urls":["https://example.org/CVE-2026-2"],"cvss":[{"version":"3.1","vector":"AV:N","score":7.5}],"risk":0}');
INSERT INTO vulnerability_details VALUES(3,'{"id":"CVE-2026-3","namespace":"debian:distro:debian:12","aliases":["GHSA-CVE-2026-3"],"severity":"High","description":"A flaw.","urls":["https://example.org/CVE-2026-3"],"cvss":[{"version":"3.1","vector":"AV:N","score":7.5}],"risk":0}');
INSERT INTO vulnerability_details VALUES(4,'{"id":"CVE-2026-4","namespace":"debian:distro:debian:12","aliases":["GHSA-CVE-2026-4"],"severity":"Medium","description":"A flaw.","urls":["https://example.org/CVE-2026-4"],"cvss":[{"version":"3.1","vector":"AV:N","score":7.5}],"risk":0}');
INSERT INTO vulnerability_details VALUES(5,'{"id":"CVE-2026-1","namespace":"debian:distro:debian:12","aliases":["GHSA-CVE-2026-1"],"severity":"High","description":"A flaw.","urls":["https://example.org/CVE-2026-1"],"cvss":[{"version":"3.1","vector":"AV:N","score":7.5}],"risk":0}');
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
    details          TEXT   NOT NULL, opened_at BIGINT NOT NULL DEFAULT 0, opened_gen BIGINT NOT NULL DEFAULT 0,
    UNIQUE (package_pk, digest, from_gen)
);
INSERT INTO findings VALUES(1,1,1,'67960cb53a8561e013bef4f67502cbf8',1,2,'fixed',1,'["3.0.2"]','[{"type":"exact-direct-match","matcher":"dpkg-matcher","found":{"constraint":"\u003c 2"}}]',1795161600000000,1);
INSERT INTO findings VALUES(2,1,2,'5600e4205bd86c7d43fcd920dbe4d7df',1,2,'not-fixed',0,'','[{"type":"exact-direct-match","matcher":"dpkg-matcher","found":{"constraint":"\u003c 2"}}]',1795161600000000,1);
INSERT INTO findings VALUES(3,2,3,'38e68f70bca35d23659c56d574d0771f',1,9223372036854775807,'not-fixed',0,'','[{"type":"exact-direct-match","matcher":"dpkg-matcher","found":{"constraint":"\u003c 2"}}]',1795161600000000,1);
INSERT INTO findings VALUES(4,1,5,'b7b1a81d82893fce9232a4857e8143d5',2,9223372036854775807,'fixed',1,'["3.0.2","3.1.1"]','[{"type":"exact-direct-match","matcher":"dpkg-matcher","found":{"constraint":"\u003c 2"}}]',1795161600000000,1);
INSERT INTO findings VALUES(5,1,4,'ee44ba11b010951015a95082ab853911',2,9223372036854775807,'not-fixed',0,'','[{"type":"exact-direct-match","matcher":"dpkg-matcher","found":{"constraint":"\u003c 2"}}]',1795179600000000,2);
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
INSERT INTO finding_changes VALUES(1,2,1,'CVE-2026-1','debian:distro:debian:12',5,1,2,'severity,fix','{"severity":"Critical","fixState":"fixed","fixVersions":["3.0.2"],"epss":0.5,"kev":true}','{"severity":"High","fixState":"fixed","fixVersions":["3.0.2","3.1.1"],"epss":0.5,"kev":true}');
INSERT INTO finding_changes VALUES(2,2,1,'CVE-2026-2','debian:distro:debian:12',2,1,1,'','{"severity":"Low","fixState":"not-fixed","epss":0.5,"kev":true}','');
INSERT INTO finding_changes VALUES(3,2,1,'CVE-2026-4','debian:distro:debian:12',3,1,0,'','','{"severity":"Medium","fixState":"not-fixed","epss":0.5,"kev":true}');
CREATE TABLE image_uses (
    scope     TEXT   NOT NULL,
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    namespace TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    container TEXT   NOT NULL,
    PRIMARY KEY (scope, image_pk, namespace, kind, name, container)
) WITHOUT ROWID;
INSERT INTO image_uses VALUES('scanner',2,'shop','Deployment','web','web');
CREATE TABLE vulnerability_names (
    name             TEXT   NOT NULL,
    vulnerability_pk BIGINT NOT NULL REFERENCES vulnerabilities (id) ON DELETE CASCADE,
    PRIMARY KEY (name, vulnerability_pk)
) WITHOUT ROWID;
INSERT INTO vulnerability_names VALUES('CVE-2026-1',1);
INSERT INTO vulnerability_names VALUES('GHSA-CVE-2026-1',1);
INSERT INTO vulnerability_names VALUES('CVE-2026-2',2);
INSERT INTO vulnerability_names VALUES('GHSA-CVE-2026-2',2);
INSERT INTO vulnerability_names VALUES('CVE-2026-3',3);
INSERT INTO vulnerability_names VALUES('GHSA-CVE-2026-3',3);
INSERT INTO vulnerability_names VALUES('CVE-2026-4',4);
INSERT INTO vulnerability_names VALUES('GHSA-CVE-2026-4',4);
INSERT INTO vulnerability_names VALUES('CVE-2026-1',5);
INSERT INTO vulnerability_names VALUES('GHSA-CVE-2026-1',5);
CREATE TABLE image_presences (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    image_pk   BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    slot       TEXT   NOT NULL,
    cluster    TEXT   NOT NULL,
    namespace  TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    container  TEXT   NOT NULL,
    since      BIGINT NOT NULL,
    -- 9223372036854775807 while it runs.
    until_time BIGINT NOT NULL,
    UNIQUE (image_pk, slot, since)
);
INSERT INTO image_presences VALUES(1,1,'shop/Deployment/web/web','production','shop','Deployment','web','web',1795165200000000,1795168800000000);
INSERT INTO image_presences VALUES(2,2,'shop/Deployment/web/web','production','shop','Deployment','web','web',1795168800000000,9223372036854775807);
CREATE TABLE rollouts (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    at            BIGINT NOT NULL,
    cluster       TEXT   NOT NULL,
    namespace     TEXT   NOT NULL,
    kind          TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    container     TEXT   NOT NULL,
    from_image    TEXT   NOT NULL,
    from_platform TEXT   NOT NULL,
    to_image      TEXT   NOT NULL,
    to_platform   TEXT   NOT NULL
);
INSERT INTO rollouts VALUES(1,1795168800000000,'production','shop','Deployment','web','web','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000001','linux/amd64','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002','linux/amd64');
CREATE TABLE container_coverage (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    scope           TEXT   NOT NULL,
    row_key         TEXT   NOT NULL,
    namespace       TEXT   NOT NULL,
    kind            TEXT   NOT NULL,
    name            TEXT   NOT NULL,
    container       TEXT   NOT NULL,
    image_id        TEXT   NOT NULL,
    platform        TEXT   NOT NULL,
    reference       TEXT   NOT NULL,
    pods            BIGINT NOT NULL,
    state           TEXT   NOT NULL,
    reason          TEXT   NOT NULL,
    message         TEXT   NOT NULL,
    next_attempt_at BIGINT NOT NULL,
    since           BIGINT NOT NULL,
    UNIQUE (scope, row_key)
);
INSERT INTO container_coverage VALUES(1,'scanner','fdb0734130c6ab6a41a97d65b8a25c8e','shop','Deployment','web','web','registry.example/web@sha256:0000000000000000000000000000000000000000000000000000000000000002','linux/amd64','registry.example/web:2',3,'Scanned','','',0,1795172400000000);
INSERT INTO container_coverage VALUES(2,'scanner','668cea94e5ca21e5359c3dba7a5accdf','shop','Deployment','web','sidecar','registry.example/broken@sha256:0000000000000000000000000000000000000000000000000000000000000003','linux/amd64','registry.example/broken:1',3,'Failed','ImagePullDenied','no credentials',0,1795172400000000);
CREATE TABLE daily_sums (
    day        TEXT   NOT NULL,
    cluster    TEXT   NOT NULL,
    namespace  TEXT   NOT NULL,
    images     BIGINT NOT NULL,
    scanned    BIGINT NOT NULL,
    critical   BIGINT NOT NULL,
    high       BIGINT NOT NULL,
    medium     BIGINT NOT NULL,
    low        BIGINT NOT NULL,
    negligible BIGINT NOT NULL,
    unknown    BIGINT NOT NULL,
    kev        BIGINT NOT NULL,
    fixable    BIGINT NOT NULL,
    PRIMARY KEY (day, cluster, namespace)
) WITHOUT ROWID;
INSERT INTO daily_sums VALUES('2026-11-20','production','',1,1,0,1,1,0,0,0,2,1);
INSERT INTO daily_sums VALUES('2026-11-20','production','shop',1,1,0,1,1,0,0,0,2,1);
CREATE TABLE event_floor (
    id  BIGINT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL
);
INSERT INTO event_floor VALUES(1,0);
CREATE TABLE sbom_parts (
    image_pk BIGINT NOT NULL REFERENCES sboms (image_pk) ON DELETE CASCADE,
    part     BIGINT NOT NULL,
    content  BLOB   NOT NULL,
    PRIMARY KEY (image_pk, part)
);
INSERT INTO sbom_parts VALUES(1,0,X'007a737464ff72656769737472792e6578616d706c652f776562407368613235363a30303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303031');
INSERT INTO sbom_parts VALUES(2,0,X'007a737464ff72656769737472792e6578616d706c652f776562407368613235363a30303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303032');
CREATE TABLE report_parts (
    report_pk BIGINT NOT NULL REFERENCES reports (id) ON DELETE CASCADE,
    part      BIGINT NOT NULL,
    content   BLOB   NOT NULL,
    PRIMARY KEY (report_pk, part)
);
INSERT INTO report_parts VALUES(1,0,X'28b52ffd0400c900007b22626f6d466f726d6174223a224379636c6f6e654458227df3d29dc0');
CREATE TABLE repository_sizes (
    repository TEXT NOT NULL PRIMARY KEY,
    class      TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
INSERT INTO repository_sizes VALUES('registry.example/web','M',1795176000000000);
CREATE TABLE registry_holds (
    host       TEXT NOT NULL PRIMARY KEY,
    until_time BIGINT NOT NULL,
    reason     TEXT NOT NULL
);
INSERT INTO registry_holds VALUES('registry.example',1795176060000000,'too many requests');
CREATE TABLE image_last_uses (
    image_pk BIGINT NOT NULL PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    at       BIGINT NOT NULL
);
INSERT INTO image_last_uses VALUES(1,1795168800000000);
CREATE TABLE object_states (
    object TEXT NOT NULL PRIMARY KEY,
    told   TEXT NOT NULL
);
CREATE TABLE rollout_queue (
    rollout_id BIGINT NOT NULL PRIMARY KEY REFERENCES rollouts (id) ON DELETE CASCADE,
    stage      BIGINT NOT NULL
);
INSERT INTO rollout_queue VALUES(1,0);
CREATE TABLE rollout_verdicts (
    rollout_id BIGINT NOT NULL PRIMARY KEY REFERENCES rollouts (id) ON DELETE CASCADE,
    at         BIGINT NOT NULL,
    state      TEXT   NOT NULL,
    opened     TEXT   NOT NULL,
    closed     TEXT   NOT NULL,
    worst      TEXT   NOT NULL
);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('goose_db_version',8);
INSERT INTO sqlite_sequence VALUES('image_presences',2);
INSERT INTO sqlite_sequence VALUES('generations',2);
INSERT INTO sqlite_sequence VALUES('events',18);
INSERT INTO sqlite_sequence VALUES('images',5);
INSERT INTO sqlite_sequence VALUES('packages',3);
INSERT INTO sqlite_sequence VALUES('vulnerabilities',5);
INSERT INTO sqlite_sequence VALUES('findings',5);
INSERT INTO sqlite_sequence VALUES('reports',1);
INSERT INTO sqlite_sequence VALUES('rollouts',1);
INSERT INTO sqlite_sequence VALUES('container_coverage',2);
INSERT INTO sqlite_sequence VALUES('finding_changes',3);
CREATE INDEX images_digest ON images (digest);
CREATE INDEX images_severity ON images (critical DESC, high DESC, medium DESC, low DESC, image_id, platform);
CREATE INDEX images_state ON images (state, image_id, platform);
CREATE INDEX image_packages_package ON image_packages (package_pk, excluded, image_pk);
CREATE INDEX generations_state ON generations (state);
CREATE INDEX generations_build ON generations (build_id);
CREATE INDEX package_answers_from ON package_answers (from_gen, package_pk);
CREATE INDEX package_answers_until ON package_answers (until_gen, package_pk);
CREATE INDEX vulnerabilities_vulnerability ON vulnerabilities (vulnerability_id);
CREATE INDEX vulnerabilities_from ON vulnerabilities (from_gen, id);
CREATE INDEX findings_from ON findings (from_gen, package_pk);
CREATE INDEX findings_until ON findings (until_gen, package_pk);
CREATE INDEX findings_vulnerability ON findings (vulnerability_pk);
CREATE INDEX finding_changes_worst ON finding_changes (generation DESC, severity DESC, kev DESC, kind, id);
CREATE INDEX finding_changes_package ON finding_changes (package_pk);
CREATE INDEX image_uses_image ON image_uses (image_pk, scope);
CREATE INDEX findings_opened ON findings (opened_gen) WHERE opened_gen <> from_gen;
CREATE INDEX vulnerability_names_vulnerability ON vulnerability_names (vulnerability_pk);
CREATE INDEX packages_name ON packages (name, version, type);
CREATE INDEX image_presences_slot ON image_presences (slot, until_time);
CREATE INDEX image_presences_until ON image_presences (until_time, image_pk);
CREATE INDEX image_presences_workload ON image_presences (namespace, name, kind, image_pk);
CREATE INDEX image_uses_workload ON image_uses (namespace, name, kind, image_pk);
CREATE INDEX rollouts_at ON rollouts (at);
CREATE INDEX rollouts_workload ON rollouts (namespace, name);
CREATE INDEX container_coverage_workload ON container_coverage (namespace, kind, name, container);
CREATE VIEW image_history AS
    SELECT i.image_id, i.platform, p.cluster, p.namespace, p.kind, p.name AS workload, p.container,
        strftime('%Y-%m-%dT%H:%M:%SZ', p.since / 1000000, 'unixepoch') AS since,
        CASE WHEN p.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', p.until_time / 1000000, 'unixepoch') END AS until_time
    FROM image_presences p JOIN images i ON i.id = p.image_pk;
CREATE VIEW vulnerability_ids AS
    SELECT DISTINCT n.name, v.vulnerability_id FROM vulnerability_names n JOIN vulnerabilities v ON v.id = n.vulnerability_pk;
CREATE VIEW open_findings AS
    SELECT i.image_id, i.platform, pk.name AS package, pk.version, pk.type, v.vulnerability_id, v.namespace AS vulnerability_namespace,
        CASE v.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        v.epss_micros / 1000000.0 AS epss, v.risk_micros / 1000000.0 AS risk, v.kev, f.fix_state, f.fix_versions,
        strftime('%Y-%m-%dT%H:%M:%SZ', max(f.opened_at, i.first_seen) / 1000000, 'unixepoch') AS first_seen
    FROM generations g
    JOIN findings f ON f.from_gen <= g.number AND f.until_gen > g.number
    JOIN vulnerabilities v ON v.id = f.vulnerability_pk
    JOIN packages pk ON pk.id = f.package_pk
    JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
    JOIN images i ON i.id = ip.image_pk AND i.matched_at > 0
    WHERE g.state = 'Current';
CREATE VIEW exposures AS
    SELECT e.cluster, e.namespace, e.kind, e.workload, e.container, e.image_id, e.platform, e.package, e.version, e.vulnerability_id,
        CASE e.severity WHEN 5 THEN 'Critical' WHEN 4 THEN 'High' WHEN 3 THEN 'Medium' WHEN 2 THEN 'Low' WHEN 1 THEN 'Negligible' ELSE 'Unknown' END
            AS severity,
        strftime('%Y-%m-%dT%H:%M:%SZ', e.since / 1000000, 'unixepoch') AS since,
        CASE WHEN e.until_time < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%SZ', e.until_time / 1000000, 'unixepoch') END AS until_time
    FROM (
        SELECT p.cluster, p.namespace, p.kind, p.name AS workload, p.container, i.image_id, i.platform, pk.name AS package, pk.version,
            v.vulnerability_id, max(v.severity) AS severity, max(p.since, f.opened_at) AS since,
            max(min(p.until_time, CASE WHEN f.until_gen <= c.number THEN COALESCE(u.current_since, 0) ELSE 9223372036854775807 END)) AS until_time
        FROM generations c
        JOIN findings f ON f.from_gen <= c.number
        LEFT JOIN generations u ON u.number = f.until_gen
        JOIN vulnerabilities v ON v.id = f.vulnerability_pk
        JOIN packages pk ON pk.id = f.package_pk
        JOIN image_packages ip ON ip.package_pk = f.package_pk AND ip.excluded = 0
        JOIN images i ON i.id = ip.image_pk
        JOIN image_presences p ON p.image_pk = i.id
        WHERE c.state = 'Current'
        GROUP BY p.id, f.package_pk, v.vulnerability_id, f.opened_at
    ) e
    WHERE e.since < e.until_time;
CREATE VIEW daily_trend AS
    SELECT day, cluster, namespace, images, scanned, critical, high, medium, low, negligible, unknown, kev, fixable FROM daily_sums;
COMMIT;
