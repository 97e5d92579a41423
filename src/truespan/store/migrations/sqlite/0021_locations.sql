-- The label of the pages, slides, lines, cells or rows that a chunk lies on. Rows of earlier versions
-- have none; the checksum of a row with one covers it.
ALTER TABLE chunks ADD COLUMN location TEXT;
ALTER TABLE tails ADD COLUMN location TEXT;
