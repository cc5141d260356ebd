-- +goose NO TRANSACTION
-- +goose Up
-- Bytes instead of text, so that the whole key fits into an index.
CREATE TABLE IF NOT EXISTS policy_places (
    policy_pk BIGINT NOT NULL,
    image_pk  BIGINT NOT NULL,
    namespace VARBINARY(255) NOT NULL,
    kind      VARBINARY(255) NOT NULL,
    name      VARBINARY(255) NOT NULL,
    PRIMARY KEY (image_pk, policy_pk, namespace, kind, name),
    INDEX policy_places_policy (policy_pk, image_pk),
    FOREIGN KEY (policy_pk) REFERENCES policies (id) ON DELETE CASCADE,
    FOREIGN KEY (image_pk) REFERENCES images (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE policy_places;
