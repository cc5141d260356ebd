-- +goose NO TRANSACTION
-- +goose Up
CREATE OR REPLACE VIEW daily_trend AS
    SELECT day, cluster, namespace, images, scanned, critical, high, medium, low, negligible, unknown, kev, fixable FROM daily_sums;

-- +goose Down
DROP VIEW daily_trend;
