-- What belongs to no world, or must be known before a world is chosen. Whoever works for one world
-- does not see any of it: it has a role of its own.

-- Which worlds there are, and what they are called: authority is checked against it, and nothing else.
CREATE TABLE truespan_shared.directory (
  world_id uuid PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  created_at double precision NOT NULL
);

-- Library-wide names for generations. What a world's own default names is in its own row.
CREATE TABLE truespan_shared.aliases (
  key text COLLATE "C" PRIMARY KEY,
  world_id uuid NOT NULL REFERENCES truespan_shared.directory ON DELETE CASCADE,
  generation integer NOT NULL,
  moved_at double precision NOT NULL
);
CREATE INDEX aliases_by_world ON truespan_shared.aliases (world_id);

-- Who may ask from outside. Of a secret only its SHA-256 is here. That a token has every world or
-- every reader is said in so many words: a token without rows or names has none.
CREATE TABLE truespan_shared.tokens (
  key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  digest bytea NOT NULL CHECK (length(digest) = 32),
  name text NOT NULL,
  every_world boolean NOT NULL,
  verbs text NOT NULL,
  every_reader boolean NOT NULL,
  readers text NOT NULL,
  created_at double precision NOT NULL,
  expires_at double precision,
  revoked_at double precision
);

-- A world that is deleted takes the rights to it along.
CREATE TABLE truespan_shared.token_worlds (
  token bigint NOT NULL REFERENCES truespan_shared.tokens ON DELETE CASCADE,
  world_id uuid NOT NULL REFERENCES truespan_shared.directory ON DELETE CASCADE,
  PRIMARY KEY (token, world_id)
);
CREATE INDEX token_worlds_by_world ON truespan_shared.token_worlds (world_id);

-- Provider keys that wait, by the name the operator gave them.
CREATE TABLE truespan_shared.cooldowns (
  provider text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  until double precision NOT NULL,
  PRIMARY KEY (provider, key)
);

-- What requests with an idempotency key were answered, for a day; neither can be read without the key.
CREATE TABLE truespan_shared.replays (
  digest bytea PRIMARY KEY CHECK (length(digest) = 32),
  fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
  process text NOT NULL,
  reply bytea,
  created_at double precision NOT NULL
);
CREATE INDEX replays_by_age ON truespan_shared.replays (created_at);

-- What is left to do until something deleted is gone everywhere. It outlives the world it tells of. A
-- later wish for the same takes a new number, so that work which began before it cannot answer it.
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
