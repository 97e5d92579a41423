-- The random id of the library. Collections on a Qdrant server name it as their owner.
CREATE TABLE truespan_shared.identity (
  name text COLLATE "C" PRIMARY KEY CHECK (name = 'library'),
  id text COLLATE "C" NOT NULL
);
