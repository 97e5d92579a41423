-- What the caller declared, apart from what was derived: readers see only the former.
ALTER TABLE revisions ADD COLUMN declared_title TEXT;
ALTER TABLE revisions ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';

CREATE TABLE readers (
  key INTEGER PRIMARY KEY,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  name TEXT NOT NULL,
  current INTEGER REFERENCES documents(key) ON DELETE SET NULL,
  UNIQUE (world, name)
) STRICT;

-- A position names the revision it was set for; it is moved, never reinterpreted, when that changes.
CREATE TABLE positions (
  reader INTEGER NOT NULL REFERENCES readers(key) ON DELETE CASCADE,
  document INTEGER NOT NULL REFERENCES documents(key) ON DELETE CASCADE,
  revision INTEGER NOT NULL,
  sid INTEGER NOT NULL CHECK (sid >= -1),
  updated_at REAL NOT NULL,
  PRIMARY KEY (reader, document)
) STRICT, WITHOUT ROWID;

-- Chunks made of read sentences alone, kept for each position that was asked from.
CREATE TABLE tails (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  sid INTEGER NOT NULL,
  position INTEGER NOT NULL,
  part INTEGER NOT NULL,
  start INTEGER NOT NULL,
  finish INTEGER NOT NULL,
  first_sid INTEGER NOT NULL,
  last_sid INTEGER NOT NULL,
  text TEXT NOT NULL,
  text_hash TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  chapter TEXT,
  section TEXT,
  PRIMARY KEY (revision, generation, sid, position)
) STRICT;
CREATE INDEX tails_by_text ON tails (text_hash);

-- A position that was prepared, so that a tail without chunks is told from one not made yet.
CREATE TABLE tail_marks (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  sid INTEGER NOT NULL,
  PRIMARY KEY (revision, generation, sid)
) STRICT, WITHOUT ROWID;
