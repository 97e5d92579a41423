-- What a world's holder measured for an embedding profile; readers never see it.
CREATE TABLE calibrations (
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  profile_id TEXT NOT NULL,
  measured TEXT NOT NULL,
  kept_at REAL NOT NULL,
  PRIMARY KEY (world, profile_id)
) STRICT, WITHOUT ROWID;
