-- Two schemas. `truespan_shared` has what belongs to no world, or must be known before a world is
-- chosen; it has its own role. `truespan` has the tables of worlds. Each of their rows names its world
-- in `world_id`, by default the world of the transaction. Keys begin with it, so that row security
-- uses the indexes, and no row can refer to a row of another world.
--
-- Text of documents is stored as UTF-8 bytes: damage cannot hide behind a failed decoding, and code
-- points that a `text` column cannot hold are allowed.
--
-- A checksum covers the cells of its row and the identity of that row: a row that was changed,
-- swapped with another or moved elsewhere does not match it.

-- All worlds with their names, read before a world is chosen. `defaults` is 'recommended' or 'contract'.
-- `audience` is that of new documents that declare none; NULL if each must declare one.
CREATE TABLE truespan_shared.directory (
  world_id uuid PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  created_at double precision NOT NULL,
  defaults text NOT NULL,
  audience text,
  checksum bytea NOT NULL
);

-- Library-wide names of generations. The default generation of a world is in `worlds`.
CREATE TABLE truespan_shared.aliases (
  key text COLLATE "C" PRIMARY KEY,
  world_id uuid NOT NULL REFERENCES truespan_shared.directory ON DELETE CASCADE,
  generation integer NOT NULL,
  moved_at double precision NOT NULL
);
CREATE INDEX aliases_by_world ON truespan_shared.aliases (world_id);

-- Access tokens. Only the SHA-256 of a secret is stored. Access to every world, every reader or the
-- documents of every label is explicit: a token without rows or names has access to none.
CREATE TABLE truespan_shared.tokens (
  key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  digest bytea NOT NULL CHECK (length(digest) = 32),
  name text NOT NULL,
  every_world boolean NOT NULL,
  verbs text NOT NULL,
  every_reader boolean NOT NULL,
  readers text NOT NULL,
  every_label boolean NOT NULL,
  audience text NOT NULL,
  impersonate boolean NOT NULL,
  created_at double precision NOT NULL,
  expires_at double precision,
  revoked_at double precision
);

CREATE TABLE truespan_shared.token_worlds (
  token bigint NOT NULL REFERENCES truespan_shared.tokens ON DELETE CASCADE,
  world_id uuid NOT NULL REFERENCES truespan_shared.directory ON DELETE CASCADE,
  PRIMARY KEY (token, world_id)
);
CREATE INDEX token_worlds_by_world ON truespan_shared.token_worlds (world_id);

-- Times until which provider keys, by the names that the operator gave them, and callers of the HTTP
-- server have to wait.
CREATE TABLE truespan_shared.cooldowns (
  provider text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  until double precision NOT NULL,
  PRIMARY KEY (provider, key)
);

-- Start times of requests to a provider, of the last minute and the next ones: all processes share one
-- limit.
CREATE TABLE truespan_shared.paces (
  provider text COLLATE "C" NOT NULL,
  begins_at double precision NOT NULL
);
CREATE INDEX paces_by_moment ON truespan_shared.paces (provider, begins_at);

-- Replies to requests with an idempotency key, stored for a day. Only a digest of the key is stored,
-- and the reply is encrypted with the key: neither can be read from this table alone.
CREATE TABLE truespan_shared.replays (
  digest bytea PRIMARY KEY CHECK (length(digest) = 32),
  fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
  process text NOT NULL,
  reply bytea,
  created_at double precision NOT NULL
);
CREATE INDEX replays_by_age ON truespan_shared.replays (created_at);

-- Pending work after a deletion, until no file has the deleted content: points and images of deleted
-- worlds, and files of the index and the store to rewrite. The same request, made again, gets a new
-- number, so that work that began before it does not complete it.
CREATE TABLE truespan_shared.erasures (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('points', 'assets', 'index', 'store')),
  world text COLLATE "C" NOT NULL DEFAULT '',
  generation integer NOT NULL DEFAULT 0,
  profile text COLLATE "C" NOT NULL DEFAULT '',
  urgent boolean NOT NULL,
  queued_at double precision NOT NULL,
  UNIQUE (kind, world, generation, profile)
);

-- The random id of the library. Collections on a Qdrant server name it as their owner.
CREATE TABLE truespan_shared.identity (
  name text COLLATE "C" PRIMARY KEY CHECK (name = 'library'),
  id text COLLATE "C" NOT NULL
);

-- The generation that readers of a world see. Its name is in `directory`.
CREATE TABLE worlds (
  world_id uuid DEFAULT current_setting('truespan.world')::uuid PRIMARY KEY
    REFERENCES truespan_shared.directory ON DELETE CASCADE,
  generation integer,
  next_document integer NOT NULL DEFAULT 1,
  next_generation integer NOT NULL DEFAULT 2,
  changes bigint NOT NULL DEFAULT 0
);

-- The embedding profile is locked to its generation: no statement changes it. `chunking` is how all
-- documents of the generation are split; NULL where each follows its own profile. `removed_at` is
-- set before the points of a generation are removed: from then on nothing can name it.
CREATE TABLE generations (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  number integer NOT NULL,
  profile_id text COLLATE "C" NOT NULL,
  profile text NOT NULL,
  created_at double precision NOT NULL,
  chunking text,
  removed_at double precision,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, number)
);

-- The previous target of each alias, so that it can be moved back. The default of a world has an
-- empty alias.
CREATE TABLE alias_moves (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  number bigint GENERATED ALWAYS AS IDENTITY,
  alias text COLLATE "C" NOT NULL,
  came_from integer,
  went_to integer NOT NULL,
  moved_at double precision NOT NULL,
  PRIMARY KEY (world_id, number)
);
CREATE INDEX alias_moves_by_alias ON alias_moves (world_id, alias, number);

-- Numbers are never reused, so that an id made from one never means another document. `erase` is set
-- where no trace of a deleted document may be left.
CREATE TABLE documents (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key bigint GENERATED ALWAYS AS IDENTITY,
  number integer NOT NULL,
  doc_id text COLLATE "C" NOT NULL,
  next_revision integer NOT NULL DEFAULT 1,
  created_at double precision NOT NULL,
  deleted_at double precision,
  erase boolean NOT NULL DEFAULT false,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, number)
);
CREATE UNIQUE INDEX documents_by_doc_id ON documents (world_id, doc_id) WHERE deleted_at IS NULL;

-- Labels belong to a revision, so that a new title becomes visible together with the new text.
-- Readers see only declared and stated labels, never derived ones. `chunking_profile` is stored
-- whole, because the profile of that name may change. `shown_path` is the path relative to the
-- ingested folder. `derived` is NULL until metadata are derived; a failure is stored as its code and
-- tried again. `parts` has the digests of the revision's sentences, places, pages, figures and
-- audits; `details_checksum` covers the long columns: metadata, properties, derived.
CREATE TABLE revisions (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  key bigint GENERATED ALWAYS AS IDENTITY,
  document bigint NOT NULL,
  number integer NOT NULL,
  state text NOT NULL CHECK (state IN ('staged', 'active', 'retired')),
  name text NOT NULL,
  path text NOT NULL,
  shown_path text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('document', 'book')),
  title text NOT NULL,
  declared_title text,
  stated_title text,
  language text NOT NULL,
  language_declared boolean NOT NULL,
  language_stated boolean NOT NULL,
  version text NOT NULL,
  tags text NOT NULL,
  audience text NOT NULL,
  chunking text NOT NULL,
  chunking_profile text NOT NULL,
  source_hash text NOT NULL,
  recipe text NOT NULL,
  source_url text,
  origin text NOT NULL,
  text_hash text COLLATE "C" NOT NULL,
  characters integer NOT NULL,
  sentences integer NOT NULL,
  created_at double precision NOT NULL,
  parts bytea NOT NULL,
  checksum bytea NOT NULL,
  metadata text,
  properties text NOT NULL,
  derived text,
  derived_error text,
  details_checksum bytea NOT NULL,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, document, number),
  FOREIGN KEY (world_id, document) REFERENCES documents ON DELETE CASCADE
);
CREATE UNIQUE INDEX one_active_revision ON revisions (world_id, document) WHERE state = 'active';
CREATE UNIQUE INDEX one_staged_revision ON revisions (world_id, document) WHERE state = 'staged';
CREATE INDEX retired_revisions ON revisions (world_id, document) WHERE state = 'retired';
CREATE INDEX revisions_by_shown_path ON revisions (shown_path);
CREATE INDEX revisions_by_source_hash ON revisions (source_hash);
-- Every ingestion asks for the few revisions without derived metadata.
CREATE INDEX revisions_underived ON revisions (world_id, document)
  WHERE state = 'active' AND derived IS NULL;

CREATE TABLE texts (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  text bytea NOT NULL,
  PRIMARY KEY (world_id, revision),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- Starts of chapters and sections. The checksum covers the previous place as well, so that none can
-- be missing.
CREATE TABLE places (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  start integer NOT NULL,
  chapter text,
  section text,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, revision, start),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- Starts of pages. `unit` is 'page', 'slide', 'line', 'cell', or 'row A:F' in a sheet.
CREATE TABLE pages (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  start integer NOT NULL,
  page integer NOT NULL,
  unit text COLLATE "C" NOT NULL,
  PRIMARY KEY (world_id, revision, start),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

CREATE TABLE sentences (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  sid integer NOT NULL,
  start integer NOT NULL,
  finish integer NOT NULL,
  tokens integer NOT NULL,
  text_hash bytea NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, revision, sid),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- A figure chunk has no span of canonical text. Its description is stored here as well, so that a
-- damaged chunk can be restored.
CREATE TABLE figures (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  number integer NOT NULL,
  figure_id text NOT NULL,
  start integer NOT NULL,
  image_ref text,
  description bytea NOT NULL,
  mark text NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, revision, number),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- Findings of the sanitizer: rule and count, never the text found.
CREATE TABLE audits (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  label text COLLATE "C" NOT NULL,
  rule text COLLATE "C" NOT NULL,
  count integer NOT NULL,
  redacted boolean NOT NULL,
  PRIMARY KEY (world_id, revision, label, rule),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- `location` is the label of the pages, slides, lines, cells or rows of the chunk.
CREATE TABLE chunks (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  position integer NOT NULL,
  text bytea NOT NULL,
  text_hash text COLLATE "C" NOT NULL,
  overlap_text bytea NOT NULL,
  sentence_ends bytea NOT NULL,
  chapter text,
  section text,
  page integer,
  figure text,
  dedupe_hash text,
  location text,
  PRIMARY KEY (world_id, revision, generation, position),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- The embedding state of every chunk, and all of its numbers. There is no foreign key to the chunk:
-- if that row is lost, this one shows the loss and is enough to split the chunk again. The checksum
-- covers the row of `chunks` as well.
CREATE TABLE states (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  position integer NOT NULL,
  chunk_id text COLLATE "C" NOT NULL,
  kind text NOT NULL CHECK (kind IN ('text', 'figure')),
  context_start integer NOT NULL,
  start integer NOT NULL,
  finish integer NOT NULL,
  first_sid integer NOT NULL,
  last_sid integer NOT NULL,
  reach integer NOT NULL,
  tokens integer NOT NULL,
  text_hash text COLLATE "C" NOT NULL,
  state text NOT NULL CHECK (state IN ('pending', 'embedded', 'quarantined')),
  warning text,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, revision, generation, position),
  UNIQUE (world_id, chunk_id)
);
CREATE INDEX states_by_text ON states (world_id, text_hash);

-- Numbers of states of a revision by condition, updated in the same commits as the states. The
-- checksum covers the checksums of all these states; NULL while it is being recomputed.
CREATE TABLE tallies (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  chunks integer NOT NULL,
  embedded integer NOT NULL,
  quarantined integer NOT NULL,
  checksum bytea,
  PRIMARY KEY (world_id, revision, generation),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

CREATE TABLE vectors (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  profile_id text COLLATE "C" NOT NULL,
  text_hash text COLLATE "C" NOT NULL,
  vector bytea NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, profile_id, text_hash)
);

-- States of the words of a text that has a vector, from the same model.
CREATE TABLE word_states (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  profile_id text COLLATE "C" NOT NULL,
  text_hash text COLLATE "C" NOT NULL,
  states bytea NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, profile_id, text_hash),
  FOREIGN KEY (world_id, profile_id, text_hash) REFERENCES vectors ON DELETE CASCADE
);

CREATE TABLE repairs (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  number bigint GENERATED ALWAYS AS IDENTITY,
  generation integer NOT NULL,
  chunk_id text COLLATE "C" NOT NULL,
  kind text NOT NULL,
  point_hash text COLLATE "C" NOT NULL,
  row_hash text,
  queued_at double precision NOT NULL,
  PRIMARY KEY (world_id, number),
  UNIQUE (world_id, generation, chunk_id, kind, point_hash)
);

-- Chunks that contain each term, with its counts. Revisions that are written together form a segment,
-- which is identified by its first revision and has one row for each term; `revisions` says which
-- postings belong to which of them. Rows are stored by term, because they are looked up by term. They
-- have no foreign key, which would be checked row by row: deleting a revision deletes its words
-- explicitly.
CREATE TABLE words (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  generation integer NOT NULL,
  term text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  revisions bytea NOT NULL,
  postings bytea NOT NULL,
  PRIMARY KEY (world_id, generation, term, revision)
);
CREATE INDEX words_by_revision ON words (world_id, revision, generation);

-- Revisions with counted words: the recipe that made their terms, a digest of their texts, and the
-- number of words of each chunk. Words of another recipe or other texts are counted again. `segment`
-- is the revision that identifies the segment.
CREATE TABLE word_counts (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  segment bigint NOT NULL,
  recipe text NOT NULL,
  texts bytea NOT NULL,
  lengths bytea NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, revision, generation),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);
CREATE INDEX word_counts_by_segment ON word_counts (world_id, segment);

CREATE TABLE readers (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key bigint GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL,
  current bigint,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, name)
);

-- A position names the revision it was set for. When that changes, the position is moved, never
-- reinterpreted.
CREATE TABLE positions (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  reader bigint NOT NULL,
  document bigint NOT NULL,
  revision integer NOT NULL,
  sid integer NOT NULL CHECK (sid >= -1),
  updated_at double precision NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, reader, document),
  FOREIGN KEY (world_id, reader) REFERENCES readers ON DELETE CASCADE,
  FOREIGN KEY (world_id, document) REFERENCES documents ON DELETE CASCADE
);
CREATE INDEX positions_by_document ON positions (world_id, document);

-- Chunks made only of sentences up to a position, stored for each position that was queried.
CREATE TABLE tails (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  sid integer NOT NULL,
  position integer NOT NULL,
  part integer NOT NULL,
  start integer NOT NULL,
  finish integer NOT NULL,
  first_sid integer NOT NULL,
  last_sid integer NOT NULL,
  text bytea NOT NULL,
  text_hash text COLLATE "C" NOT NULL,
  tokens integer NOT NULL,
  chapter text,
  section text,
  page integer,
  location text,
  PRIMARY KEY (world_id, revision, generation, sid, position),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);
CREATE INDEX tails_by_text ON tails (world_id, text_hash);

-- Positions with stored tails, which distinguish an empty tail from a missing one. The checksum covers
-- all tails of the position.
CREATE TABLE tail_marks (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  sid integer NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, revision, generation, sid),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- Questions that may follow up on previous ones. A conversation belongs to the token that began it,
-- and to a reader and a book unless it covers the whole world.
CREATE TABLE conversations (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key bigint GENERATED ALWAYS AS IDENTITY,
  id text COLLATE "C" NOT NULL,
  reader text COLLATE "C",
  document integer,
  token text COLLATE "C",
  created_at double precision NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, id)
);
CREATE INDEX conversations_by_reader ON conversations (world_id, reader, document);

-- A turn of a reader names the revision and the position at which it was asked. `documents` are the
-- numbers of those with used passages, each between spaces. The checksum covers the hash of the
-- content, so that turns can be listed and checked without reading them.
CREATE TABLE turns (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  key bigint GENERATED ALWAYS AS IDENTITY,
  conversation bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  number integer NOT NULL,
  asked_at double precision NOT NULL,
  document integer,
  revision integer,
  sid integer,
  documents text COLLATE "C" NOT NULL,
  content bytea NOT NULL,
  content_hash bytea NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, conversation, number),
  UNIQUE (world_id, id),
  FOREIGN KEY (world_id, conversation) REFERENCES conversations ON DELETE CASCADE
);
CREATE INDEX turns_by_time ON turns (world_id, asked_at);
CREATE INDEX turns_by_document ON turns (world_id, document, revision) WHERE document IS NOT NULL;

-- Notes of readers. A note is visible from `sid` on, the position at which it was written.
-- `first_sid` and `last_sid` are the marked sentences; -1 if the present text does not have them.
CREATE TABLE notes (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key bigint GENERATED ALWAYS AS IDENTITY,
  id text COLLATE "C" NOT NULL,
  reader text COLLATE "C" NOT NULL,
  document integer NOT NULL,
  revision integer NOT NULL,
  sid integer NOT NULL,
  first_sid integer NOT NULL,
  last_sid integer NOT NULL,
  written_at double precision NOT NULL,
  content bytea NOT NULL,
  content_hash bytea NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, id)
);
CREATE INDEX notes_by_reader ON notes (world_id, reader, document);
CREATE INDEX notes_by_document ON notes (world_id, document, revision);

-- Vectors of fixed texts, which reveal a changed model.
CREATE TABLE probes (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  generation integer NOT NULL,
  probe text COLLATE "C" NOT NULL,
  vector bytea NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, generation, probe)
);

-- Vectors of recent queries, and the states of their words: NULL if they were not requested, empty if
-- the model gives none. The words are not stored. The row that records the last erasure has no
-- checksum.
CREATE TABLE query_cache (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key text COLLATE "C" NOT NULL,
  vector bytea NOT NULL,
  states bytea,
  created_at double precision NOT NULL,
  unconfirmed text COLLATE "C",
  checksum bytea,
  PRIMARY KEY (world_id, key)
);
CREATE INDEX query_cache_by_age ON query_cache (world_id, created_at);

-- Measured thresholds of an embedding profile; readers never see them.
CREATE TABLE calibrations (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  profile_id text COLLATE "C" NOT NULL,
  measured text NOT NULL,
  kept_at double precision NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, profile_id)
);

-- Vectors of the cohort under a profile; texts that come with Truespan and depend on no document.
CREATE TABLE cohorts (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  profile_id text COLLATE "C" NOT NULL,
  digest text NOT NULL,
  vectors bytea NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (world_id, profile_id)
);

-- Answered requests and their decisions, without text of documents and answers. A query is stored as
-- a keyed hash unless the operator wants its text.
CREATE TABLE usage (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key bigint GENERATED ALWAYS AS IDENTITY,
  id text COLLATE "C" NOT NULL,
  created_at double precision NOT NULL,
  milliseconds integer NOT NULL,
  mode text NOT NULL,
  primary_model text,
  fallback_model text,
  evidence text NOT NULL,
  decision_explain text NOT NULL,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, id)
);
CREATE INDEX usage_by_time ON usage (world_id, created_at);

-- A `background` job is resumed by the next process that serves the library, unless it has crashed too
-- often. `parent` and `weight` belonged to parts of jobs, which there are no more. `claims` are
-- the ids of documents that no other job may ingest while this one runs, as JSON.
CREATE TABLE jobs (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key bigint GENERATED ALWAYS AS IDENTITY,
  id text COLLATE "C" NOT NULL,
  kind text NOT NULL,
  request text NOT NULL,
  state text NOT NULL
    CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'interrupted')),
  phase text NOT NULL,
  process text NOT NULL,
  cancel boolean NOT NULL DEFAULT false,
  created_at double precision NOT NULL,
  seen_at double precision NOT NULL,
  finished_at double precision,
  counts text NOT NULL DEFAULT '{}',
  error text,
  background boolean NOT NULL DEFAULT false,
  crashes integer NOT NULL DEFAULT 0,
  parent text COLLATE "C",
  weight bigint NOT NULL DEFAULT 0,
  claims text NOT NULL DEFAULT '[]',
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, id),
  FOREIGN KEY (world_id, parent) REFERENCES jobs (world_id, id) ON DELETE CASCADE
);
CREATE INDEX jobs_by_parent ON jobs (world_id, parent, key) WHERE parent IS NOT NULL;

CREATE TABLE job_documents (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  job bigint NOT NULL,
  doc_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  state text NOT NULL,
  code text,
  reason text,
  chunks integer NOT NULL DEFAULT 0,
  PRIMARY KEY (world_id, job, doc_id),
  FOREIGN KEY (world_id, job) REFERENCES jobs ON DELETE CASCADE
);

CREATE TABLE job_lines (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  job bigint NOT NULL,
  number integer NOT NULL,
  at double precision NOT NULL,
  level text NOT NULL,
  line text NOT NULL,
  PRIMARY KEY (world_id, job, number),
  FOREIGN KEY (world_id, job) REFERENCES jobs ON DELETE CASCADE
);

-- Return `length` code points of a stored text; NULL if the bytes are not text that PostgreSQL can
-- count in, so that the caller reads all of them and counts itself.
CREATE FUNCTION text_part(kept bytea, start integer, length integer) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN convert_to(substr(convert_from(kept, 'UTF8'), start + 1, length), 'UTF8');
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END
$$;
