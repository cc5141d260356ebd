-- +goose NO TRANSACTION
-- +goose Up
CREATE OR REPLACE VIEW image_lifecycles AS
    SELECT i.image_id, i.platform, i.distro,
        CASE WHEN d.end_of_support > 0 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.end_of_support DIV 1000000, '1970-01-01'), '%Y-%m-%d') END AS end_of_support,
        CASE WHEN d.end_of_life > 0 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, d.end_of_life DIV 1000000, '1970-01-01'), '%Y-%m-%d') END AS end_of_life,
        CASE WHEN a.created_at > 0 THEN DATE_FORMAT(TIMESTAMPADD(SECOND, a.created_at DIV 1000000, '1970-01-01'), '%Y-%m-%dT%H:%i:%sZ') END AS created
    FROM images i LEFT JOIN distro_lifecycles d ON d.distro = i.distro LEFT JOIN sbom_creations a ON a.image_pk = i.id
    WHERE i.sbom_sha256 <> '';

-- +goose Down
DROP VIEW image_lifecycles;
