INSERT INTO rollouts (id, at, cluster, namespace, kind, name, container, from_image, from_platform, to_image, to_platform) VALUES
    (101, 3, '', 'renamed', 'Deployment', 'web', 'web', 'a', '', 'b', ''),
    (102, 2, '', 'renamed', 'Deployment', 'web', 'web', 'b', '', 'c', ''),
    (103, 1, '', 'renamed', 'Deployment', 'web', 'web', 'c', '', 'd', '');
INSERT INTO rollout_verdicts (rollout_id, at, state, opened, closed, worst) VALUES (101, 5, 'judged', '{}', '{}', '{}'), (102, 6, 'gaveUp', '{}', '{}', '{}');
INSERT INTO events (seq, at, kind, image_id, platform, data) VALUES
    (1001, 1, 'rollout.judged', 'b', '', '{"state":"judged"}'),
    (1002, 1, 'rollout.judged', 'c', '', '{"state":"gaveUp"}'),
    (1003, 1, 'image.catalogued', 'renamed', '', '{}');
INSERT INTO images (id, image_id, platform, repository, digest, state, nonce, attempts, reason, message, next_attempt_at, distro, size, package_count,
    critical, high, medium, low, negligible, unknown, kev, fixable, first_seen, catalogued_at, matched_at, sbom_sha256, sbom_size)
    VALUES (101, 'renamed', 'linux/amd64', '', '', 'Catalogued', '', 0, '', '', 0, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 'd', 1);
INSERT INTO container_coverage (scope, row_key, namespace, kind, name, container, image_id, platform, reference, pods, state, reason, message, next_attempt_at, since)
    VALUES ('scanner', 'renamed', 'renamed', 'Deployment', 'web', 'web', 'z', '', 'z', 1, 'Pending', 'NotCatalogued', '', 0, 1);
