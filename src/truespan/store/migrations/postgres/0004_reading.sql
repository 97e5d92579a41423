CREATE TABLE readers (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key bigint GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL,
  current bigint,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, name)
);

-- A position names the revision it was set for; it is moved, never reinterpreted, when that changes.
CREATE TABLE positions (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  reader bigint NOT NULL,
  document bigint NOT NULL,
  revision integer NOT NULL,
  sid integer NOT NULL CHECK (sid >= -1),
  updated_at double precision NOT NULL,
  PRIMARY KEY (world_id, reader, document),
  FOREIGN KEY (world_id, reader) REFERENCES readers ON DELETE CASCADE,
  FOREIGN KEY (world_id, document) REFERENCES documents ON DELETE CASCADE
);
CREATE INDEX positions_by_document ON positions (world_id, document);

-- Chunks made of read sentences alone, kept for each position that was asked from.
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
  PRIMARY KEY (world_id, revision, generation, sid, position),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);
CREATE INDEX tails_by_text ON tails (world_id, text_hash);

-- A position that was prepared, so that a tail without chunks is told from one not made yet.
CREATE TABLE tail_marks (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  sid integer NOT NULL,
  PRIMARY KEY (world_id, revision, generation, sid),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);
