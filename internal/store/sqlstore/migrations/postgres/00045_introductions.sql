-- Images that began to be visible in a namespace, as long as no event has told of their findings there. at is since when it is.

-- +goose Up
CREATE TABLE introductions (
    image_pk  BIGINT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    namespace TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (image_pk, namespace)
);

-- +goose Down
DROP TABLE introductions;
