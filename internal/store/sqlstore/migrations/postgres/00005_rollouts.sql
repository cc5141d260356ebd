-- +goose Up
-- What is still to be done about rollouts: 0 they wait to be judged, 1 their workloads are to be told.
CREATE TABLE rollout_queue (
    rollout_id BIGINT NOT NULL PRIMARY KEY REFERENCES rollouts (id) ON DELETE CASCADE,
    stage      BIGINT NOT NULL
);
INSERT INTO rollout_queue (rollout_id, stage) SELECT id, 0 FROM rollouts;

-- What rollouts did: opened and closed are counts by severity, worst both lists of findings.
CREATE TABLE rollout_verdicts (
    rollout_id BIGINT NOT NULL PRIMARY KEY REFERENCES rollouts (id) ON DELETE CASCADE,
    at         BIGINT NOT NULL,
    state      TEXT   COLLATE "C" NOT NULL,
    opened     TEXT   COLLATE "C" NOT NULL,
    closed     TEXT   COLLATE "C" NOT NULL,
    worst      TEXT   COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE rollout_verdicts;
DROP TABLE rollout_queue;
