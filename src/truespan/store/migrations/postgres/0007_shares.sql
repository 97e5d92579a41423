-- A job that several workers do at once is spread: each of its shares is a row of its own, which names
-- the job it is of, and is gone when that is over. Its weight is how much there is to read.
ALTER TABLE jobs ADD COLUMN parent text COLLATE "C";
ALTER TABLE jobs ADD COLUMN weight bigint NOT NULL DEFAULT 0;
-- The ids of documents that nobody else carries in while the job runs, as a list in JSON.
ALTER TABLE jobs ADD COLUMN claims text NOT NULL DEFAULT '[]';
ALTER TABLE jobs ADD FOREIGN KEY (world_id, parent) REFERENCES jobs (world_id, id) ON DELETE CASCADE;
CREATE INDEX jobs_by_parent ON jobs (world_id, parent, key) WHERE parent IS NOT NULL;
