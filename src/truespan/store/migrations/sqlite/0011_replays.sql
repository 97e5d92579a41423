-- What requests with an idempotency key were answered, for a day. Of the key only a digest is here,
-- and the reply is sealed with the key: whoever has the file alone can read neither.
CREATE TABLE replays (
  digest BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
  process TEXT NOT NULL,
  reply BLOB,
  created_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX replays_by_age ON replays (created_at);
