-- Who may ask from outside. Of a secret only its SHA-256 is here. That a token has every world or
-- every reader is said in so many words: a token without rows or names has none.
CREATE TABLE tokens (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  name TEXT NOT NULL,
  every_world INTEGER NOT NULL CHECK (every_world IN (0, 1)),
  verbs TEXT NOT NULL,
  every_reader INTEGER NOT NULL CHECK (every_reader IN (0, 1)),
  readers TEXT NOT NULL,
  created_at REAL NOT NULL,
  expires_at REAL,
  revoked_at REAL
) STRICT;

-- A world that is deleted takes the rights to it along.
CREATE TABLE token_worlds (
  token INTEGER NOT NULL REFERENCES tokens(key) ON DELETE CASCADE,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  PRIMARY KEY (token, world)
) STRICT, WITHOUT ROWID;
CREATE INDEX token_worlds_by_world ON token_worlds (world);
