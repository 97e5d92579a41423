-- How often each term stands in which chunks of a revision: their indexes, then the counts.
CREATE TABLE words (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  generation integer NOT NULL,
  term text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  postings bytea NOT NULL,
  PRIMARY KEY (world_id, generation, term, revision),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);
CREATE INDEX words_by_revision ON words (world_id, revision, generation);

-- Which revisions were counted, how their terms were made, of which texts, and how many words each
-- chunk has. A recipe or texts that are no longer the ones in force: to be counted anew.
CREATE TABLE word_counts (
  world_id uuid NOT NULL DEFAULT current_setting('truespan.world')::uuid,
  revision bigint NOT NULL,
  generation integer NOT NULL,
  recipe text NOT NULL,
  texts bytea NOT NULL,
  lengths bytea NOT NULL,
  PRIMARY KEY (world_id, revision, generation),
  FOREIGN KEY (world_id, revision) REFERENCES revisions ON DELETE CASCADE
);
