-- +goose NO TRANSACTION
-- +goose Up
CREATE OR REPLACE VIEW image_history AS
    SELECT i.image_id, i.platform, p.cluster, p.namespace, p.kind, p.name AS workload, p.container,
        DATE_FORMAT(TIMESTAMPADD(SECOND, p.since DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS since,
        CASE WHEN p.until_time < 9223372036854775807 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, p.until_time DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS until_time, o.owner
    FROM image_presences p JOIN images i ON i.id = p.image_pk
    LEFT JOIN workload_owners o ON o.namespace = p.namespace AND o.kind = p.kind AND o.name = p.name;

-- +goose Down
CREATE OR REPLACE VIEW image_history AS
    SELECT i.image_id, i.platform, p.cluster, p.namespace, p.kind, p.name AS workload, p.container,
        DATE_FORMAT(TIMESTAMPADD(SECOND, p.since DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') AS since,
        CASE WHEN p.until_time < 9223372036854775807 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, p.until_time DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS until_time
    FROM image_presences p JOIN images i ON i.id = p.image_pk;
