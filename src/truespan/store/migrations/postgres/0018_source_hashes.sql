-- Files with the same content are found by their hash.
CREATE INDEX revisions_by_source_hash ON revisions (source_hash);
