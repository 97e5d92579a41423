-- Revisions that are written together share a row of words for each term, under the key of the first
-- of them: `revisions` says whose the postings are. NULL where they are those of `revision` alone.
ALTER TABLE words ADD COLUMN revisions bytea;
-- The revision under whose key the words of this one lie; NULL where they lie under its own.
ALTER TABLE word_counts ADD COLUMN segment bigint;
CREATE INDEX word_counts_by_segment ON word_counts (world_id, segment) WHERE segment IS NOT NULL;
