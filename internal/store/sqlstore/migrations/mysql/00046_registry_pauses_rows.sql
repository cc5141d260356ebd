-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO registry_pauses (host, namespace, until_time, reason) SELECT host, '', until_time, reason FROM registry_holds;

-- +goose Down
INSERT IGNORE INTO registry_holds (host, until_time, reason) SELECT host, until_time, reason FROM registry_pauses WHERE namespace = '';
