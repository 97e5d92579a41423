-- How often each term stands in which chunks of a revision: their indexes, then the counts. Rows
-- lie by term, since that is how they are looked up, whatever the engine's own text search can do.
CREATE TABLE words (
  world INTEGER NOT NULL REFERENCES worlds(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  term TEXT NOT NULL,
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  postings BLOB NOT NULL,
  PRIMARY KEY (world, generation, term, revision)
) STRICT, WITHOUT ROWID;
CREATE INDEX words_by_revision ON words (revision, generation);

-- Which revisions were counted, how their terms were made, of which texts, and how many words each
-- chunk has. A recipe or texts that are no longer the ones in force: to be counted anew.
CREATE TABLE word_counts (
  revision INTEGER NOT NULL REFERENCES revisions(key) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  recipe TEXT NOT NULL,
  texts BLOB NOT NULL,
  lengths BLOB NOT NULL,
  PRIMARY KEY (revision, generation)
) STRICT, WITHOUT ROWID;
