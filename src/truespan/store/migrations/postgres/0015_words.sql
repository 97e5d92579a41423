-- A reference is checked row by row, and a document has hundreds of terms: who deletes a revision
-- deletes its words.
ALTER TABLE words DROP CONSTRAINT words_world_id_revision_fkey;
