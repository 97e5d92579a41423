-- Revisions whose metadata wait to be derived are few among many; every ingestion asks for them.
CREATE INDEX revisions_underived ON revisions (document) WHERE state = 'active' AND derived IS NULL;
