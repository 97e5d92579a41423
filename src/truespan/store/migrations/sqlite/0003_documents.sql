-- The text of a revision lies apart: a row is read from its beginning, and whoever lists documents
-- would otherwise read through every text on the way to the labels behind it.
CREATE TABLE texts (
  revision INTEGER PRIMARY KEY REFERENCES revisions(key) ON DELETE CASCADE,
  text TEXT NOT NULL
) STRICT;
INSERT INTO texts SELECT key, text FROM revisions;
ALTER TABLE revisions DROP COLUMN text;

-- How a revision was cut is kept whole: a profile of that name may come to mean something else.
ALTER TABLE revisions ADD COLUMN chunking_profile TEXT;
-- What the source says of itself in fields meant for that, apart from its text.
ALTER TABLE revisions ADD COLUMN stated_title TEXT;
ALTER TABLE revisions ADD COLUMN language_stated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE revisions ADD COLUMN properties TEXT NOT NULL DEFAULT '{}';
-- What the caller gave to be kept with it.
ALTER TABLE revisions ADD COLUMN source_url TEXT;
ALTER TABLE revisions ADD COLUMN metadata TEXT;
ALTER TABLE revisions ADD COLUMN origin TEXT NOT NULL DEFAULT '';
-- Derived after embedding; NULL until then. A failure is kept as its code and tried again.
ALTER TABLE revisions ADD COLUMN derived TEXT;
ALTER TABLE revisions ADD COLUMN derived_error TEXT;

ALTER TABLE chunks ADD COLUMN page INTEGER;
ALTER TABLE chunks ADD COLUMN figure TEXT;
ALTER TABLE chunks ADD COLUMN dedupe_hash TEXT;
ALTER TABLE tails ADD COLUMN page INTEGER;

CREATE TABLE pages (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  start INTEGER NOT NULL,
  page INTEGER NOT NULL,
  PRIMARY KEY (revision, start)
) STRICT, WITHOUT ROWID;

-- A figure chunk has no span of canonical text; its description is kept here as well, so that a
-- damaged row can be written again.
CREATE TABLE figures (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  figure_id TEXT NOT NULL,
  start INTEGER NOT NULL,
  image_ref TEXT,
  description TEXT NOT NULL,
  mark TEXT NOT NULL,
  PRIMARY KEY (revision, number)
) STRICT, WITHOUT ROWID;

-- What the sanitiser found, by rule and number; never what it was.
CREATE TABLE audits (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  label TEXT NOT NULL,
  rule TEXT NOT NULL,
  count INTEGER NOT NULL,
  redacted INTEGER NOT NULL CHECK (redacted IN (0, 1)),
  PRIMARY KEY (revision, label, rule)
) STRICT, WITHOUT ROWID;

-- Vectors of known texts, by which a changed model is noticed.
CREATE TABLE probes (
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  probe TEXT NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (world, generation, probe)
) STRICT, WITHOUT ROWID;

-- Provider keys that wait, by the name the operator gave them.
CREATE TABLE cooldowns (
  provider TEXT NOT NULL,
  key TEXT NOT NULL,
  until REAL NOT NULL,
  PRIMARY KEY (provider, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
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
  error TEXT
) STRICT;
CREATE INDEX jobs_by_world ON jobs (world, key);

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
