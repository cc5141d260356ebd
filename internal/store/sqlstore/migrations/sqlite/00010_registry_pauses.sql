-- Which registries are paused until when, for scans that use the credentials of a namespace.

-- +goose Up
-- namespace is empty for scans without the credentials of a tenant.
CREATE TABLE registry_pauses (
    host       TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    until_time BIGINT NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (host, namespace)
);
INSERT INTO registry_pauses (host, namespace, until_time, reason) SELECT host, '', until_time, reason FROM registry_holds;
DROP TABLE registry_holds;

-- +goose Down
CREATE TABLE registry_holds (
    host       TEXT NOT NULL PRIMARY KEY,
    until_time BIGINT NOT NULL,
    reason     TEXT NOT NULL
);
INSERT INTO registry_holds (host, until_time, reason) SELECT host, until_time, reason FROM registry_pauses WHERE namespace = '';
DROP TABLE registry_pauses;
