-- The path of a file as results show it: from the folder that was ingested on. A row of an earlier
-- version has none; the checksum of a row with one covers it, and the metadata.
ALTER TABLE revisions ADD COLUMN shown_path TEXT;
CREATE INDEX revisions_by_shown_path ON revisions (shown_path);
