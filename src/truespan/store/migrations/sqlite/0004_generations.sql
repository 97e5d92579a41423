-- How all documents of a generation are cut; NULL where each is cut as its own profile says.
ALTER TABLE generations ADD COLUMN chunking TEXT;
-- Set before the points of a generation are removed: from then on nothing can name it any more.
ALTER TABLE generations ADD COLUMN removed_at REAL;
-- Numbers are never given twice: an id made from one can never come to mean another's chunk.
ALTER TABLE worlds ADD COLUMN next_generation INTEGER NOT NULL DEFAULT 2;

-- Library-wide names for generations. What a world's own default names is in `worlds`.
CREATE TABLE aliases (
  key TEXT PRIMARY KEY,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  moved_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_by_world ON aliases (world);

-- What each alias named before, so that it can be moved back; an empty key is a world's default.
CREATE TABLE alias_moves (
  number INTEGER PRIMARY KEY,
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  alias TEXT NOT NULL,
  came_from INTEGER,
  went_to INTEGER NOT NULL,
  moved_at REAL NOT NULL
) STRICT;
CREATE INDEX alias_moves_by_alias ON alias_moves (world, alias, number);
