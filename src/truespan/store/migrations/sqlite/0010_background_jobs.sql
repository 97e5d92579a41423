-- Whether a job was handed to somebody who works in the background, so that whoever serves the library
-- next takes it up again; and how often such a job was running when its process went away, so that one
-- which takes its process with it is not taken up for ever.
ALTER TABLE jobs ADD COLUMN background INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
