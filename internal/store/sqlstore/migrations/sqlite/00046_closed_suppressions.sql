-- Where findings were suppressed when a build closed them, for messages about them: in a reach, which can be of no decision any more. One row for each
-- finding of a change and each reach; none if a finding of the change was suppressed nowhere.

-- +goose Up
CREATE TABLE closed_suppressions (
    change_id  BIGINT NOT NULL REFERENCES finding_changes (id) ON DELETE CASCADE,
    finding_id BIGINT NOT NULL,
    reach      BIGINT NOT NULL,
    PRIMARY KEY (change_id, finding_id, reach)
) WITHOUT ROWID;
CREATE INDEX closed_suppressions_reach ON closed_suppressions (reach);

-- +goose Down
DROP TABLE closed_suppressions;
