-- Column names are those of PostgreSQL, so that each statement of the store is written once.
--
-- A checksum covers the cells of its row and the identity of that row: a row that was changed,
-- swapped with another or moved elsewhere does not match it.

-- Worlds, and the generation that their readers see. `defaults` is 'recommended' or 'contract'.
-- `audience` is that of new documents that declare none; NULL if each must declare one.
CREATE TABLE worlds (
  world_id INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,
  created_at REAL NOT NULL,
  defaults TEXT NOT NULL,
  audience TEXT,
  checksum BLOB NOT NULL,
  generation INTEGER,
  next_document INTEGER NOT NULL DEFAULT 1,
  next_generation INTEGER NOT NULL DEFAULT 2,
  changes INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The embedding profile is locked to its generation: no statement changes it. `chunking` is how all
-- documents of the generation are split; NULL where each follows its own profile. `removed_at` is
-- set before the points of a generation are removed: from then on nothing can name it.
CREATE TABLE generations (
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  profile_id TEXT NOT NULL,
  profile TEXT NOT NULL,
  created_at REAL NOT NULL,
  chunking TEXT,
  removed_at REAL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (world_id, number)
) STRICT, WITHOUT ROWID;

-- Library-wide names of generations. The default generation of a world is in `worlds`.
CREATE TABLE aliases (
  key TEXT PRIMARY KEY,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  moved_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_by_world ON aliases (world_id);

-- The previous target of each alias, so that it can be moved back. The default of a world has an
-- empty alias.
CREATE TABLE alias_moves (
  number INTEGER PRIMARY KEY,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  alias TEXT NOT NULL,
  came_from INTEGER,
  went_to INTEGER NOT NULL,
  moved_at REAL NOT NULL
) STRICT;
CREATE INDEX alias_moves_by_alias ON alias_moves (world_id, alias, number);

-- Numbers are never reused, so that an id made from one never means another document. `erase` is set
-- where no trace of a deleted document may be left.
CREATE TABLE documents (
  key INTEGER PRIMARY KEY,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  doc_id TEXT NOT NULL,
  next_revision INTEGER NOT NULL DEFAULT 1,
  created_at REAL NOT NULL,
  deleted_at REAL,
  erase INTEGER NOT NULL DEFAULT 0,
  UNIQUE (world_id, number)
) STRICT;
CREATE UNIQUE INDEX documents_by_doc_id ON documents (world_id, doc_id) WHERE deleted_at IS NULL;

-- Labels belong to a revision, so that a new title becomes visible together with the new text.
-- Readers see only declared and stated labels, never derived ones. `chunking_profile` is stored
-- whole, because the profile of that name may change. `shown_path` is the path relative to the
-- ingested folder. `derived` is NULL until metadata are derived; a failure is stored as its code and
-- tried again. `parts` has the digests of the revision's sentences, places, pages, figures and
-- audits; `details_checksum` covers the long columns: metadata, properties, derived.
CREATE TABLE revisions (
  key INTEGER PRIMARY KEY,
  document INTEGER NOT NULL REFERENCES documents(key) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('staged', 'active', 'retired')),
  name TEXT NOT NULL,
  path TEXT NOT NULL,
  shown_path TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('document', 'book')),
  title TEXT NOT NULL,
  declared_title TEXT,
  stated_title TEXT,
  language TEXT NOT NULL,
  language_declared INTEGER NOT NULL CHECK (language_declared IN (0, 1)),
  language_stated INTEGER NOT NULL CHECK (language_stated IN (0, 1)),
  version TEXT NOT NULL,
  tags TEXT NOT NULL,
  audience TEXT NOT NULL,
  chunking TEXT NOT NULL,
  chunking_profile TEXT NOT NULL,
  source_hash TEXT NOT NULL,
  recipe TEXT NOT NULL,
  source_url TEXT,
  origin TEXT NOT NULL,
  text_hash TEXT NOT NULL,
  characters INTEGER NOT NULL,
  sentences INTEGER NOT NULL,
  created_at REAL NOT NULL,
  parts BLOB NOT NULL,
  checksum BLOB NOT NULL,
  metadata TEXT,
  properties TEXT NOT NULL,
  derived TEXT,
  derived_error TEXT,
  details_checksum BLOB NOT NULL,
  UNIQUE (document, number)
) STRICT;
CREATE UNIQUE INDEX one_active_revision ON revisions (document) WHERE state = 'active';
CREATE UNIQUE INDEX one_staged_revision ON revisions (document) WHERE state = 'staged';
CREATE INDEX retired_revisions ON revisions (document) WHERE state = 'retired';
CREATE INDEX revisions_by_shown_path ON revisions (shown_path);
CREATE INDEX revisions_by_source_hash ON revisions (source_hash);
-- Every ingestion asks for the few revisions without derived metadata.
CREATE INDEX revisions_underived ON revisions (document) WHERE state = 'active' AND derived IS NULL;

-- Texts have their own table: SQLite reads a row from its beginning, and listing documents would
-- otherwise read every text.
CREATE TABLE texts (
  revision INTEGER PRIMARY KEY REFERENCES revisions(key) ON DELETE CASCADE,
  text TEXT NOT NULL
) STRICT;

-- Starts of chapters and sections. The checksum covers the previous place as well, so that none can
-- be missing.
CREATE TABLE places (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  start INTEGER NOT NULL,
  chapter TEXT,
  section TEXT,
  checksum BLOB NOT NULL,
  PRIMARY KEY (revision, start)
) STRICT, WITHOUT ROWID;

-- Starts of pages. `unit` is 'page', 'slide', 'line', 'cell', or 'row A:F' in a sheet.
CREATE TABLE pages (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  start INTEGER NOT NULL,
  page INTEGER NOT NULL,
  unit TEXT NOT NULL,
  PRIMARY KEY (revision, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE sentences (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  sid INTEGER NOT NULL,
  start INTEGER NOT NULL,
  finish INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  text_hash BLOB NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (revision, sid)
) STRICT, WITHOUT ROWID;

-- A figure chunk has no span of canonical text. Its description is stored here as well, so that a
-- damaged chunk can be restored.
CREATE TABLE figures (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  figure_id TEXT NOT NULL,
  start INTEGER NOT NULL,
  image_ref TEXT,
  description TEXT NOT NULL,
  mark TEXT NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (revision, number)
) STRICT, WITHOUT ROWID;

-- Findings of the sanitizer: rule and count, never the text found.
CREATE TABLE audits (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  label TEXT NOT NULL,
  rule TEXT NOT NULL,
  count INTEGER NOT NULL,
  redacted INTEGER NOT NULL CHECK (redacted IN (0, 1)),
  PRIMARY KEY (revision, label, rule)
) STRICT, WITHOUT ROWID;

-- `location` is the label of the pages, slides, lines, cells or rows of the chunk.
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
  page INTEGER,
  figure TEXT,
  dedupe_hash TEXT,
  location TEXT,
  PRIMARY KEY (revision, generation, position)
) STRICT;

-- The embedding state of every chunk, and all of its numbers. There is no foreign key to the chunk:
-- if that row is lost, this one shows the loss and is enough to split the chunk again. The checksum
-- covers the row of `chunks` as well.
CREATE TABLE states (
  revision INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  position INTEGER NOT NULL,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
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
  checksum BLOB NOT NULL,
  PRIMARY KEY (revision, generation, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX states_by_text ON states (world_id, text_hash);

-- Numbers of states of a revision by condition, updated in the same commits as the states. The
-- checksum covers the checksums of all these states; NULL while it is being recomputed.
CREATE TABLE tallies (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  embedded INTEGER NOT NULL,
  quarantined INTEGER NOT NULL,
  checksum BLOB,
  PRIMARY KEY (revision, generation)
) STRICT, WITHOUT ROWID;

CREATE TABLE vectors (
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  profile_id TEXT NOT NULL,
  text_hash TEXT NOT NULL,
  vector BLOB NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (world_id, profile_id, text_hash)
) STRICT;

-- States of the words of a text that has a vector, from the same model.
CREATE TABLE word_states (
  world_id INTEGER NOT NULL,
  profile_id TEXT NOT NULL,
  text_hash TEXT NOT NULL,
  states BLOB NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (world_id, profile_id, text_hash),
  FOREIGN KEY (world_id, profile_id, text_hash)
    REFERENCES vectors (world_id, profile_id, text_hash) ON DELETE CASCADE
) STRICT;

CREATE TABLE repairs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  chunk_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  point_hash TEXT NOT NULL,
  row_hash TEXT,
  queued_at REAL NOT NULL,
  UNIQUE (world_id, generation, chunk_id, kind, point_hash)
) STRICT;

-- Chunks that contain each term, with its counts. Revisions that are written together form a segment,
-- which is identified by its first revision and has one row for each term; `revisions` says which
-- postings belong to which of them. Rows are looked up by term with the index of the primary key, and
-- stored in the order of writing: stored by term, each of them would change a different page.
CREATE TABLE words (
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  term TEXT NOT NULL,
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  revisions BLOB NOT NULL,
  postings BLOB NOT NULL,
  PRIMARY KEY (world_id, generation, term, revision)
) STRICT;
CREATE INDEX words_by_revision ON words (revision, generation);

-- Revisions with counted words: the recipe that made their terms, a digest of their texts, and the
-- number of words of each chunk. Words of another recipe or other texts are counted again. `segment`
-- is the revision that identifies the segment.
CREATE TABLE word_counts (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  segment INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  recipe TEXT NOT NULL,
  texts BLOB NOT NULL,
  lengths BLOB NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (revision, generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX word_counts_by_segment ON word_counts (segment);

CREATE TABLE readers (
  key INTEGER PRIMARY KEY,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  current INTEGER REFERENCES documents(key) ON DELETE SET NULL,
  UNIQUE (world_id, name)
) STRICT;

-- A position names the revision it was set for. When that changes, the position is moved, never
-- reinterpreted.
CREATE TABLE positions (
  reader INTEGER NOT NULL REFERENCES readers(key) ON DELETE CASCADE,
  document INTEGER NOT NULL REFERENCES documents(key) ON DELETE CASCADE,
  revision INTEGER NOT NULL,
  sid INTEGER NOT NULL CHECK (sid >= -1),
  updated_at REAL NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (reader, document)
) STRICT, WITHOUT ROWID;

-- Chunks made only of sentences up to a position, stored for each position that was queried.
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
  page INTEGER,
  location TEXT,
  PRIMARY KEY (revision, generation, sid, position)
) STRICT;
CREATE INDEX tails_by_text ON tails (text_hash);

-- Positions with stored tails, which distinguish an empty tail from a missing one. The checksum covers
-- all tails of the position.
CREATE TABLE tail_marks (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  sid INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (revision, generation, sid)
) STRICT, WITHOUT ROWID;

-- Questions that may follow up on previous ones. A conversation belongs to the token that began it,
-- and to a reader and a book unless it covers the whole world.
CREATE TABLE conversations (
  key INTEGER PRIMARY KEY,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  id TEXT NOT NULL,
  reader TEXT,
  document INTEGER,
  token TEXT,
  created_at REAL NOT NULL,
  checksum BLOB NOT NULL,
  UNIQUE (world_id, id)
) STRICT;
CREATE INDEX conversations_by_reader ON conversations (world_id, reader, document);

-- A turn of a reader names the revision and the position at which it was asked. `documents` are the
-- numbers of those with used passages, each between spaces. The checksum covers the hash of the
-- content, so that turns can be listed and checked without reading them.
CREATE TABLE turns (
  key INTEGER PRIMARY KEY,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  conversation INTEGER NOT NULL REFERENCES conversations(key) ON DELETE CASCADE,
  id TEXT NOT NULL,
  number INTEGER NOT NULL,
  asked_at REAL NOT NULL,
  document INTEGER,
  revision INTEGER,
  sid INTEGER,
  documents TEXT NOT NULL,
  content TEXT NOT NULL,
  content_hash BLOB NOT NULL,
  checksum BLOB NOT NULL,
  UNIQUE (conversation, number),
  UNIQUE (world_id, id)
) STRICT;
CREATE INDEX turns_by_time ON turns (asked_at);
CREATE INDEX turns_by_document ON turns (world_id, document, revision) WHERE document IS NOT NULL;

-- Notes of readers. A note is visible from `sid` on, the position at which it was written.
-- `first_sid` and `last_sid` are the marked sentences; -1 if the present text does not have them.
CREATE TABLE notes (
  key INTEGER PRIMARY KEY,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  id TEXT NOT NULL,
  reader TEXT NOT NULL,
  document INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  sid INTEGER NOT NULL,
  first_sid INTEGER NOT NULL,
  last_sid INTEGER NOT NULL,
  written_at REAL NOT NULL,
  content TEXT NOT NULL,
  content_hash BLOB NOT NULL,
  checksum BLOB NOT NULL,
  UNIQUE (world_id, id)
) STRICT;
CREATE INDEX notes_by_reader ON notes (world_id, reader, document);
CREATE INDEX notes_by_document ON notes (world_id, document, revision);

-- Vectors of fixed texts, which reveal a changed model.
CREATE TABLE probes (
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  probe TEXT NOT NULL,
  vector BLOB NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (world_id, generation, probe)
) STRICT, WITHOUT ROWID;

-- Vectors of recent queries, and the states of their words: NULL if they were not requested, empty if
-- the model gives none. The words are not stored. The row that records the last erasure has no
-- checksum.
CREATE TABLE query_cache (
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  vector BLOB NOT NULL,
  states BLOB,
  created_at REAL NOT NULL,
  unconfirmed TEXT,
  checksum BLOB,
  PRIMARY KEY (world_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX query_cache_by_age ON query_cache (created_at);

-- Measured thresholds of an embedding profile; readers never see them.
CREATE TABLE calibrations (
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  profile_id TEXT NOT NULL,
  measured TEXT NOT NULL,
  kept_at REAL NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (world_id, profile_id)
) STRICT, WITHOUT ROWID;

-- Vectors of the cohort under a profile; texts that come with Truespan and depend on no document.
CREATE TABLE cohorts (
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  profile_id TEXT NOT NULL,
  digest TEXT NOT NULL,
  vectors BLOB NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (world_id, profile_id)
) STRICT, WITHOUT ROWID;

-- Answered requests and their decisions, without text of documents and answers. A query is stored as
-- a keyed hash unless the operator wants its text.
CREATE TABLE usage (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  created_at REAL NOT NULL,
  milliseconds INTEGER NOT NULL,
  mode TEXT NOT NULL,
  primary_model TEXT,
  fallback_model TEXT,
  evidence TEXT NOT NULL,
  decision_explain TEXT NOT NULL
) STRICT;
CREATE INDEX usage_by_world ON usage (world_id, key);
CREATE INDEX usage_by_time ON usage (created_at);

-- A `background` job is resumed by the next process that serves the library, unless it has crashed too
-- often. `parent` and `weight` belonged to parts of jobs, which there are no more. `claims` are
-- the ids of documents that no other job may ingest while this one runs, as JSON.
CREATE TABLE jobs (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  request TEXT NOT NULL,
  state TEXT NOT NULL
    CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'interrupted')),
  phase TEXT NOT NULL,
  process TEXT NOT NULL,
  cancel INTEGER NOT NULL DEFAULT 0,
  created_at REAL NOT NULL,
  seen_at REAL NOT NULL,
  finished_at REAL,
  counts TEXT NOT NULL DEFAULT '{}',
  error TEXT,
  background INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
  parent TEXT REFERENCES jobs(id) ON DELETE CASCADE,
  weight INTEGER NOT NULL DEFAULT 0,
  claims TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX jobs_by_world ON jobs (world_id, key);
CREATE INDEX jobs_by_parent ON jobs (parent, key) WHERE parent IS NOT NULL;

CREATE TABLE job_documents (
  job INTEGER NOT NULL REFERENCES jobs(key) ON DELETE CASCADE,
  doc_id TEXT NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  code TEXT,
  reason TEXT,
  chunks INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job, doc_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_lines (
  job INTEGER NOT NULL REFERENCES jobs(key) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  at REAL NOT NULL,
  level TEXT NOT NULL,
  line TEXT NOT NULL,
  PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;

-- Access tokens. Only the SHA-256 of a secret is stored. Access to every world, every reader or the
-- documents of every label is explicit: a token without rows or names has access to none.
CREATE TABLE tokens (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  name TEXT NOT NULL,
  every_world INTEGER NOT NULL CHECK (every_world IN (0, 1)),
  verbs TEXT NOT NULL,
  every_reader INTEGER NOT NULL CHECK (every_reader IN (0, 1)),
  readers TEXT NOT NULL,
  every_label INTEGER NOT NULL CHECK (every_label IN (0, 1)),
  audience TEXT NOT NULL,
  impersonate INTEGER NOT NULL CHECK (impersonate IN (0, 1)),
  created_at REAL NOT NULL,
  expires_at REAL,
  revoked_at REAL
) STRICT;

CREATE TABLE token_worlds (
  token INTEGER NOT NULL REFERENCES tokens(key) ON DELETE CASCADE,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  PRIMARY KEY (token, world_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX token_worlds_by_world ON token_worlds (world_id);

-- Times until which provider keys, by the names that the operator gave them, and callers of the HTTP
-- server have to wait.
CREATE TABLE cooldowns (
  provider TEXT NOT NULL,
  key TEXT NOT NULL,
  until REAL NOT NULL,
  PRIMARY KEY (provider, key)
) STRICT, WITHOUT ROWID;

-- Replies to requests with an idempotency key, stored for a day. Only a digest of the key is stored,
-- and the reply is encrypted with the key: neither can be read from this table alone.
CREATE TABLE replays (
  digest BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
  process TEXT NOT NULL,
  reply BLOB,
  created_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX replays_by_age ON replays (created_at);

-- Pending work after a deletion, until no file has the deleted content: points and images of deleted
-- worlds, and files of the index and the store to rewrite. The same request, made again, gets a new
-- number, so that work that began before it does not complete it.
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

-- The random id of the library. Collections on a Qdrant server name it as their owner.
CREATE TABLE identity (
  name TEXT PRIMARY KEY NOT NULL CHECK (name = 'library'),
  id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
