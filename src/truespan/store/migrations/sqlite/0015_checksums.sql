-- Each checksum covers what its row says and which row it is, so that a row that was changed, swapped
-- or moved is not believed. Rows written before have none; they get theirs when their world is first
-- opened, as long as the row of that world has none either.
ALTER TABLE worlds ADD COLUMN checksum BLOB;
ALTER TABLE generations ADD COLUMN checksum BLOB;
ALTER TABLE revisions ADD COLUMN checksum BLOB;
-- Digests of the revision's sentences, places, pages, figures and audits, each as a whole.
ALTER TABLE revisions ADD COLUMN parts BLOB;
-- Covers the long columns that only describe the document: metadata, properties, derived.
ALTER TABLE revisions ADD COLUMN details_checksum BLOB;
ALTER TABLE sentences ADD COLUMN checksum BLOB;
-- Covers the places before as well, so that none can be missing.
ALTER TABLE places ADD COLUMN checksum BLOB;
ALTER TABLE figures ADD COLUMN checksum BLOB;
-- Covers the row of `chunks` as well.
ALTER TABLE states ADD COLUMN checksum BLOB;
-- Covers the checksums of all states of the revision in the generation.
ALTER TABLE tallies ADD COLUMN checksum BLOB;
ALTER TABLE positions ADD COLUMN checksum BLOB;
-- Covers all tails of the position.
ALTER TABLE tail_marks ADD COLUMN checksum BLOB;
ALTER TABLE vectors ADD COLUMN checksum BLOB;
ALTER TABLE probes ADD COLUMN checksum BLOB;
ALTER TABLE query_cache ADD COLUMN checksum BLOB;
ALTER TABLE calibrations ADD COLUMN checksum BLOB;
ALTER TABLE word_counts ADD COLUMN checksum BLOB;
