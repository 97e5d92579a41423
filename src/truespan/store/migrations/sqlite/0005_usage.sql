-- What was asked and how it was decided. No text of documents, no answers; a query is a keyed hash
-- unless the operator wants it otherwise.
CREATE TABLE usage (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  created_at REAL NOT NULL,
  milliseconds INTEGER NOT NULL,
  mode TEXT NOT NULL,
  primary_model TEXT,
  fallback_model TEXT,
  evidence TEXT NOT NULL,
  decision_explain TEXT NOT NULL
) STRICT;
CREATE INDEX usage_by_world ON usage (world, key);
CREATE INDEX usage_by_time ON usage (created_at);
