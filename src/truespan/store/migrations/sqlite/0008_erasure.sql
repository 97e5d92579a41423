-- What is left to do until something deleted cannot be found in any file: points and images of worlds
-- that are gone, and files of the index and of the store that are to be written anew. A later wish
-- for the same takes a new number, so that work which began before it cannot answer it.
CREATE TABLE erasures (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('points', 'assets', 'index', 'store')),
  world TEXT NOT NULL DEFAULT '',
  generation INTEGER NOT NULL DEFAULT 0,
  profile TEXT NOT NULL DEFAULT '',
  urgent INTEGER NOT NULL CHECK (urgent IN (0, 1)),
  queued_at REAL NOT NULL,
  UNIQUE (kind, world, generation, profile)
) STRICT;

-- Whether a document was deleted by somebody who wants no trace of it, and not merely replaced.
ALTER TABLE documents ADD COLUMN erase INTEGER NOT NULL DEFAULT 0;
