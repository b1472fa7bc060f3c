-- A small store of version 3 in PostgreSQL, written by commit b1609bf.
CREATE TABLE meta (key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (key));
CREATE TABLE experiment (id INTEGER NOT NULL, seq BIGINT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, config TEXT NOT NULL, config_version INTEGER NOT NULL, default_arm INTEGER NOT NULL, created_hour INTEGER NOT NULL, forgotten INTEGER NOT NULL, PRIMARY KEY (id)) WITH (fillfactor = 50);
CREATE TABLE arm (experiment INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, payload TEXT NOT NULL, status TEXT NOT NULL, PRIMARY KEY (experiment, place));
CREATE TABLE event (seq BIGINT NOT NULL, epsilon BIGINT, experiment INTEGER NOT NULL, arm INTEGER, probability INTEGER, expires INTEGER, hour INTEGER NOT NULL, bit SMALLINT, flags SMALLINT, kind TEXT NOT NULL, decision BYTEA, detail TEXT, config INTEGER, question BYTEA, PRIMARY KEY (experiment, seq));
CREATE TABLE snapshot (experiment INTEGER NOT NULL, kernel TEXT NOT NULL, seq BIGINT NOT NULL, body BYTEA NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (experiment, kernel, seq));
CREATE TABLE issued (experiment INTEGER NOT NULL, arm INTEGER NOT NULL, process TEXT NOT NULL, expires INTEGER NOT NULL, count BIGINT NOT NULL, PRIMARY KEY (experiment, expires, arm, process)) WITH (fillfactor = 50);
CREATE TABLE refused (experiment INTEGER NOT NULL, reason TEXT NOT NULL, minute INTEGER NOT NULL, count BIGINT NOT NULL, PRIMARY KEY (experiment, reason, minute)) WITH (fillfactor = 50);
CREATE TABLE visitor (experiment INTEGER NOT NULL, visitor BYTEA NOT NULL, token BYTEA NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (experiment, visitor));
CREATE TABLE api_key (id TEXT NOT NULL, role TEXT NOT NULL, digest BYTEA NOT NULL, created INTEGER NOT NULL, revoked INTEGER, PRIMARY KEY (id));
CREATE TABLE signing_key (id INTEGER NOT NULL, made BIGINT NOT NULL, secret BYTEA NOT NULL, PRIMARY KEY (id));
CREATE UNIQUE INDEX experiment_name ON experiment (name);
CREATE UNIQUE INDEX arm_name ON arm (experiment, name);
CREATE UNIQUE INDEX event_decision ON event (experiment, decision) WHERE decision IS NOT NULL;
CREATE INDEX event_expires ON event (experiment, expires) WHERE expires IS NOT NULL;
CREATE INDEX visitor_expires ON visitor (expires);
INSERT INTO meta (key, value) VALUES
('schema', '3');
INSERT INTO experiment (id, seq, name, status, config, config_version, default_arm, created_hour, forgotten) VALUES
(1, 16, 'headlines', 'running', '{"epsilon": 1.0}', 3, 0, 500000, 29900040),
(2, 6, 'layouts', 'running', '{"epsilon": 1.0, "groups": ["a", "b"], "note": "it''s"}', 2, 1, 500000, 29900040);
INSERT INTO arm (experiment, place, name, payload, status) VALUES
(1, 0, 'red', '{"colour": "#f00"}', 'open'),
(1, 1, 'blue', 'null', 'open'),
(1, 2, 'grün', '[1, 2]', 'retired'),
(2, 0, 'wide', 'null', 'open'),
(2, 1, 'narrow', 'null', 'open'),
(1, 3, 'late', '{"a": null}', 'open');
INSERT INTO event (seq, epsilon, experiment, arm, probability, expires, hour, bit, flags, kind, decision, detail, config, question) VALUES
(1, NULL, 1, NULL, NULL, NULL, 500000, NULL, NULL, 'create', NULL, '{"config":{"epsilon": 1.0},"default_arm":0,"arms":[{"name":"red","payload":{"colour": "#f00"}},{"name":"blue","payload":null},{"name":"grün","payload":[1, 2]}]}', NULL, NULL),
(2, 1000000, 1, 0, 60000, NULL, 500000, 0, 0, 'report', NULL, NULL, 1, NULL),
(3, 1000000, 1, 1, 60000, NULL, 500000, 1, 0, 'report', NULL, NULL, 1, NULL),
(4, 1000000, 1, 2, 60000, NULL, 500000, 0, 0, 'report', NULL, NULL, 1, NULL),
(5, 1000000, 1, 0, 60000, 29901480, 500000, 1, 0, 'report', '\xa0b1c20000000000000003', NULL, 1, NULL),
(6, 1000000, 1, 1, 60000, 29901540, 500001, 0, 0, 'report', '\xa0b1c20000000000000004', NULL, 1, NULL),
(7, 1000000, 1, 2, 60000, 29901600, 500001, 1, 0, 'report', '\xa0b1c20000000000000005', NULL, 1, NULL),
(8, 1000000, 1, 0, 60000, 29901480, 500001, 0, 0, 'report', '\xa0b1c20000000000000006', NULL, 1, NULL),
(9, 1000000, 1, 1, 60000, 29901540, 500001, 1, 0, 'report', '\xa0b1c20000000000000007', NULL, 1, NULL),
(10, 1000000, 1, 2, 60000, 29901600, 500002, 0, 0, 'report', '\xa0b1c20000000000000008', NULL, 1, NULL),
(11, NULL, 1, 3, NULL, NULL, 500001, NULL, NULL, 'arm', NULL, '{"name":"late","payload":{"a": null}}', NULL, NULL),
(12, NULL, 1, 2, NULL, NULL, 500001, NULL, NULL, 'retire', NULL, '{"name":"grün"}', NULL, NULL),
(13, 1000000, 1, 0, 60000, 29901480, 500002, 1, 0, 'report', '\xa0b1c20000000000000009', NULL, 1, NULL),
(14, 1000000, 1, 1, 60000, 29901540, 500002, 0, 0, 'report', '\xa0b1c2000000000000000a', NULL, 1, NULL),
(15, 1000000, 1, 2, 60000, 29901600, 500002, 1, 0, 'report', '\xa0b1c2000000000000000b', NULL, 1, NULL),
(16, 1000000, 1, 0, 60000, 29901480, 500003, 0, 0, 'report', '\xa0b1c2000000000000000c', NULL, 1, NULL),
(1, NULL, 2, NULL, NULL, NULL, 500000, NULL, NULL, 'create', NULL, '{"config":{"epsilon": 1.0, "groups": ["a", "b"]},"default_arm":1,"arms":[{"name":"wide","payload":null},{"name":"narrow","payload":null}]}', NULL, NULL),
(2, 1000000, 2, NULL, NULL, 29901600, 500005, 0, 0, 'report', '\xa0b1c20000000000000014', NULL, 1, '\x140102'),
(3, 1000000, 2, NULL, NULL, 29901480, 500005, 1, 0, 'report', '\xa0b1c20000000000000015', NULL, 1, '\x150102'),
(4, 1000000, 2, NULL, NULL, 29901540, 500005, 0, 0, 'report', '\xa0b1c20000000000000016', NULL, 1, '\x160102'),
(5, 1000000, 2, NULL, NULL, 29901600, 500005, 1, 0, 'report', '\xa0b1c20000000000000017', NULL, 1, '\x170102'),
(6, NULL, 2, NULL, NULL, NULL, 500002, NULL, NULL, 'config', NULL, '{"config":{"epsilon": 1.0, "groups": ["a", "b"], "note": "it''s"},"default_arm":1}', NULL, NULL);
INSERT INTO issued (experiment, arm, process, expires, count) VALUES
(1, 0, 'process a', 29901480, 9),
(1, 1, 'process a', 29901540, 5);
INSERT INTO refused (experiment, reason, minute, count) VALUES
(0, 'forged', 29900040, 1),
(1, 'late', 29900040, 2);
INSERT INTO visitor (experiment, visitor, token, expires) VALUES
(1, '\x000102030405060708090a0b0c0d0e0f', '\x6120746f6b656e', 29901480);
INSERT INTO api_key (id, role, digest, created, revoked) VALUES
('admin-1', 'admin', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 500000, NULL);
