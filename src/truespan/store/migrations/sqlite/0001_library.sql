-- Worlds, and the generation that readers of each one see.
CREATE TABLE worlds (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,
  generation INTEGER,
  next_document INTEGER NOT NULL DEFAULT 1,
  changes INTEGER NOT NULL DEFAULT 0,
  created_at REAL NOT NULL
) STRICT;

-- The embedding profile is locked to its generation: there is no statement that changes it.
CREATE TABLE generations (
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  profile_id TEXT NOT NULL,
  profile TEXT NOT NULL,
  created_at REAL NOT NULL,
  PRIMARY KEY (world, number)
) STRICT, WITHOUT ROWID;

-- Numbers are never given twice, so an id made from them can never come to mean something else.
CREATE TABLE documents (
  key INTEGER PRIMARY KEY,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  doc_id TEXT NOT NULL,
  next_revision INTEGER NOT NULL DEFAULT 1,
  created_at REAL NOT NULL,
  deleted_at REAL,
  UNIQUE (world, number)
) STRICT;
CREATE UNIQUE INDEX documents_by_doc_id ON documents (world, doc_id) WHERE deleted_at IS NULL;

-- Labels belong to a revision, so that a new title is seen with the new text and not before.
CREATE TABLE revisions (
  key INTEGER PRIMARY KEY,
  document INTEGER NOT NULL REFERENCES documents(key) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('staged', 'active', 'retired')),
  name TEXT NOT NULL,
  path TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('document', 'book')),
  title TEXT NOT NULL,
  language TEXT NOT NULL,
  language_declared INTEGER NOT NULL CHECK (language_declared IN (0, 1)),
  version TEXT NOT NULL,
  chunking TEXT NOT NULL,
  source_hash TEXT NOT NULL,
  recipe TEXT NOT NULL,
  text TEXT NOT NULL,
  text_hash TEXT NOT NULL,
  characters INTEGER NOT NULL,
  sentences INTEGER NOT NULL,
  created_at REAL NOT NULL,
  UNIQUE (document, number)
) STRICT;
CREATE UNIQUE INDEX one_active_revision ON revisions (document) WHERE state = 'active';
CREATE UNIQUE INDEX one_staged_revision ON revisions (document) WHERE state = 'staged';
CREATE INDEX retired_revisions ON revisions (document) WHERE state = 'retired';

CREATE TABLE places (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  start INTEGER NOT NULL,
  chapter TEXT,
  section TEXT,
  PRIMARY KEY (revision, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE sentences (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  sid INTEGER NOT NULL,
  start INTEGER NOT NULL,
  finish INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  text_hash BLOB NOT NULL,
  PRIMARY KEY (revision, sid)
) STRICT, WITHOUT ROWID;

CREATE TABLE chunks (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  position INTEGER NOT NULL,
  text TEXT NOT NULL,
  text_hash TEXT NOT NULL,
  overlap_text TEXT NOT NULL,
  sentence_ends BLOB NOT NULL,
  chapter TEXT,
  section TEXT,
  PRIMARY KEY (revision, generation, position)
) STRICT;

-- The embedding state of every chunk, and all of its numbers. It has no foreign key to the chunk
-- row: when that row is gone, this one tells so, and suffices to cut the chunk again.
CREATE TABLE states (
  revision INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  position INTEGER NOT NULL,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  chunk_id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('text', 'figure')),
  context_start INTEGER NOT NULL,
  start INTEGER NOT NULL,
  finish INTEGER NOT NULL,
  first_sid INTEGER NOT NULL,
  last_sid INTEGER NOT NULL,
  reach INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  text_hash TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'embedded', 'quarantined')),
  warning TEXT,
  PRIMARY KEY (revision, generation, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX states_by_text ON states (world, text_hash);

-- How many states of a revision are in which condition; kept in the same commits as the states.
CREATE TABLE tallies (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  embedded INTEGER NOT NULL,
  quarantined INTEGER NOT NULL,
  PRIMARY KEY (revision, generation)
) STRICT, WITHOUT ROWID;

CREATE TABLE vectors (
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  profile_id TEXT NOT NULL,
  text_hash TEXT NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (world, profile_id, text_hash)
) STRICT;

CREATE TABLE repairs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  chunk_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  point_hash TEXT NOT NULL,
  row_hash TEXT,
  queued_at REAL NOT NULL,
  UNIQUE (world, generation, chunk_id, kind, point_hash)
) STRICT;

CREATE TABLE query_cache (
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  key TEXT NOT NULL,
  vector BLOB NOT NULL,
  created_at REAL NOT NULL,
  PRIMARY KEY (world, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX query_cache_by_age ON query_cache (created_at);
