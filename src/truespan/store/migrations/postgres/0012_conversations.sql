-- Questions that follow up on earlier ones. Each conversation belongs to the token that began it, and
-- to a reader and a book if it is not about the whole world.
CREATE TABLE conversations (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid
    REFERENCES worlds ON DELETE CASCADE,
  key bigint GENERATED ALWAYS AS IDENTITY,
  id text COLLATE "C" NOT NULL,
  reader text COLLATE "C",
  document integer,
  token text COLLATE "C",
  created_at double precision NOT NULL,
  checksum bytea,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, id)
);
CREATE INDEX conversations_by_reader ON conversations (world_id, reader, document);

-- A turn of a reader names the revision and the sentence up to which that reader had read. The
-- documents are those whose passages it used, each number between spaces. The checksum covers the hash
-- of what the turn says, so that a list can check turns without reading them.
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
  checksum bytea,
  PRIMARY KEY (world_id, key),
  UNIQUE (world_id, conversation, number),
  UNIQUE (world_id, id),
  FOREIGN KEY (world_id, conversation) REFERENCES conversations ON DELETE CASCADE
);
CREATE INDEX turns_by_time ON turns (world_id, asked_at);
CREATE INDEX turns_by_document ON turns (world_id, document, revision) WHERE document IS NOT NULL;
