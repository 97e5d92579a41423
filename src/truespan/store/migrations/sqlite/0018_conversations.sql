-- Questions that follow up on earlier ones. Each conversation belongs to the token that began it, and
-- to a reader and a book if it is not about the whole world.
CREATE TABLE conversations (
  key INTEGER PRIMARY KEY,
  world_id INTEGER NOT NULL REFERENCES worlds(world_id) ON DELETE CASCADE,
  id TEXT NOT NULL,
  reader TEXT,
  document INTEGER,
  token TEXT,
  created_at REAL NOT NULL,
  checksum BLOB,
  UNIQUE (world_id, id)
) STRICT;
CREATE INDEX conversations_by_reader ON conversations (world_id, reader, document);

-- A turn of a reader names the revision and the sentence up to which that reader had read. The
-- documents are those whose passages it used, each number between spaces. The checksum covers the hash
-- of what the turn says, so that a list can check turns without reading them.
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
  checksum BLOB,
  UNIQUE (conversation, number),
  UNIQUE (world_id, id)
) STRICT;
CREATE INDEX turns_by_time ON turns (asked_at);
CREATE INDEX turns_by_document ON turns (world_id, document, revision) WHERE document IS NOT NULL;
