-- Text of documents is kept as the bytes of its UTF-8: so damage cannot hide behind a failed decoding,
-- and a code point that this engine's own texts cannot hold is no exception.

-- Numbers are never given twice, so an id made from them can never come to mean something else.
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

-- Labels belong to a revision, so that a new title is seen with the new text and not before.
CREATE TABLE revisions (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  key bigint GENERATED ALWAYS AS IDENTITY,
  document bigint NOT NULL,
  number integer NOT NULL,
  state text NOT NULL CHECK (state IN ('staged', 'active', 'retired')),
  name text NOT NULL,
  path text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('document', 'book')),
  title text NOT NULL,
  declared_title text,
  stated_title text,
  language text NOT NULL,
  language_declared boolean NOT NULL,
  language_stated boolean NOT NULL DEFAULT false,
  version text NOT NULL,
  tags text NOT NULL DEFAULT '[]',
  chunking text NOT NULL,
  chunking_profile text,
  source_hash text NOT NULL,
  recipe text NOT NULL,
  source_url text,
  metadata text,
  origin text NOT NULL DEFAULT '',
  properties text NOT NULL DEFAULT '{}',
  derived text,
  derived_error text,
  text_hash text COLLATE "C" NOT NULL,
  characters integer NOT NULL,
  sentences integer NOT NULL,
  created_at double precision NOT NULL,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, document, number),
  FOREIGN KEY (world_id, document) REFERENCES documents ON DELETE CASCADE
);
CREATE UNIQUE INDEX one_active_revision ON revisions (world_id, document) WHERE state = 'active';
CREATE UNIQUE INDEX one_staged_revision ON revisions (world_id, document) WHERE state = 'staged';
CREATE INDEX retired_revisions ON revisions (world_id, document) WHERE state = 'retired';

CREATE TABLE texts (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  text bytea NOT NULL,
  PRIMARY KEY (world_id, revision),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

CREATE TABLE places (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  start integer NOT NULL,
  chapter text,
  section text,
  PRIMARY KEY (world_id, revision, start),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

CREATE TABLE pages (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  start integer NOT NULL,
  page integer NOT NULL,
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
  PRIMARY KEY (world_id, revision, sid),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- A figure chunk has no span of canonical text; its description is kept here as well, so that a
-- damaged row can be written again.
CREATE TABLE figures (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  number integer NOT NULL,
  figure_id text NOT NULL,
  start integer NOT NULL,
  image_ref text,
  description bytea NOT NULL,
  mark text NOT NULL,
  PRIMARY KEY (world_id, revision, number),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- What the sanitiser found, by rule and number; never what it was.
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
  PRIMARY KEY (world_id, revision, generation, position),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);

-- The embedding state of every chunk, and all of its numbers. It has no foreign key to the chunk
-- row: when that row is gone, this one tells so, and suffices to cut the chunk again.
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
  PRIMARY KEY (world_id, revision, generation, position),
  UNIQUE (world_id, chunk_id)
);
CREATE INDEX states_by_text ON states (world_id, text_hash);

-- How many states of a revision are in which condition; kept in the same commits as the states.
CREATE TABLE tallies (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  chunks integer NOT NULL,
  embedded integer NOT NULL,
  quarantined integer NOT NULL,
  PRIMARY KEY (world_id, revision, generation),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
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

-- Gives some code points of a text that is kept as bytes; NULL when the bytes are no text that this
-- engine can count in, so that whoever asked takes them all and counts for itself.
CREATE FUNCTION text_part(kept bytea, start integer, length integer) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN convert_to(substr(convert_from(kept, 'UTF8'), start + 1, length), 'UTF8');
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END
$$;
