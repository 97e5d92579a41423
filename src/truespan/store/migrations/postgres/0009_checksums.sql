-- Each checksum covers what its row says and which row it is, so that a row that was changed, swapped
-- or moved is not believed. Rows written before have none; they get theirs when their world is first
-- opened, as long as the row of that world has none either.
ALTER TABLE truespan_shared.directory ADD COLUMN checksum bytea;
ALTER TABLE generations ADD COLUMN checksum bytea;
ALTER TABLE revisions ADD COLUMN checksum bytea;
-- Digests of the revision's sentences, places, pages, figures and audits, each as a whole.
ALTER TABLE revisions ADD COLUMN parts bytea;
-- Covers the long columns that only describe the document: metadata, properties, derived.
ALTER TABLE revisions ADD COLUMN details_checksum bytea;
ALTER TABLE sentences ADD COLUMN checksum bytea;
-- Covers the places before as well, so that none can be missing.
ALTER TABLE places ADD COLUMN checksum bytea;
ALTER TABLE figures ADD COLUMN checksum bytea;
-- Covers the row of `chunks` as well.
ALTER TABLE states ADD COLUMN checksum bytea;
-- Covers the checksums of all states of the revision in the generation.
ALTER TABLE tallies ADD COLUMN checksum bytea;
ALTER TABLE positions ADD COLUMN checksum bytea;
-- Covers all tails of the position.
ALTER TABLE tail_marks ADD COLUMN checksum bytea;
ALTER TABLE vectors ADD COLUMN checksum bytea;
ALTER TABLE probes ADD COLUMN checksum bytea;
ALTER TABLE query_cache ADD COLUMN checksum bytea;
ALTER TABLE calibrations ADD COLUMN checksum bytea;
ALTER TABLE word_counts ADD COLUMN checksum bytea;
