-- Every table from here on belongs to worlds. A row says whose it is by `world_id`, which is never
-- written by hand: it is the world that the transaction was begun for. Keys lead with it, so that the
-- policy is also the way into each index, and so that no row can hang on one of another world.
CREATE TABLE worlds (
  world_id uuid DEFAULT current_setting('truespan.world')::uuid PRIMARY KEY
    REFERENCES truespan_shared.directory ON DELETE CASCADE,
  generation integer,
  next_document integer NOT NULL DEFAULT 1,
  next_generation integer NOT NULL DEFAULT 2,
  changes bigint NOT NULL DEFAULT 0
);

-- The embedding profile is locked to its generation: there is no statement that changes it.
CREATE TABLE generations (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  number integer NOT NULL,
  profile_id text COLLATE "C" NOT NULL,
  profile text NOT NULL,
  created_at double precision NOT NULL,
  chunking text,
  removed_at double precision,
  PRIMARY KEY (world_id, number)
);

-- What each alias named before, so that it can be moved back; an empty key is a world's default.
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

CREATE TABLE vectors (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  profile_id text COLLATE "C" NOT NULL,
  text_hash text COLLATE "C" NOT NULL,
  vector bytea NOT NULL,
  PRIMARY KEY (world_id, profile_id, text_hash)
);

-- Vectors of known texts, by which a changed model is noticed.
CREATE TABLE probes (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  generation integer NOT NULL,
  probe text COLLATE "C" NOT NULL,
  vector bytea NOT NULL,
  PRIMARY KEY (world_id, generation, probe)
);

CREATE TABLE query_cache (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key text COLLATE "C" NOT NULL,
  vector bytea NOT NULL,
  created_at double precision NOT NULL,
  PRIMARY KEY (world_id, key)
);
CREATE INDEX query_cache_by_age ON query_cache (world_id, created_at);

-- What a world's holder measured for an embedding profile; readers never see it.
CREATE TABLE calibrations (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  profile_id text COLLATE "C" NOT NULL,
  measured text NOT NULL,
  kept_at double precision NOT NULL,
  PRIMARY KEY (world_id, profile_id)
);

-- What was asked and how it was decided. No text of documents, no answers.
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
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, id)
);

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
