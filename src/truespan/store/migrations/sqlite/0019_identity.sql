-- The random id of the library. Collections on a Qdrant server name it as their owner.
CREATE TABLE identity (
  name TEXT PRIMARY KEY NOT NULL CHECK (name = 'library'),
  id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
