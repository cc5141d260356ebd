-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO finding_fixes (finding_id, since)
    SELECT f.id, COALESCE(g.current_since, 0) FROM findings f LEFT JOIN generations g ON g.number = f.from_gen WHERE f.fixable = 1;

-- +goose Down
DELETE FROM finding_fixes;
