-- The same column names as in PostgreSQL, so that each statement of the store is written once. Renaming
-- a column changes the schema alone: no row is written, whatever the size of the library.
ALTER TABLE worlds RENAME COLUMN key TO world_id;
ALTER TABLE generations RENAME COLUMN world TO world_id;
ALTER TABLE documents RENAME COLUMN world TO world_id;
ALTER TABLE states RENAME COLUMN world TO world_id;
ALTER TABLE vectors RENAME COLUMN world TO world_id;
ALTER TABLE repairs RENAME COLUMN world TO world_id;
ALTER TABLE query_cache RENAME COLUMN world TO world_id;
ALTER TABLE readers RENAME COLUMN world TO world_id;
ALTER TABLE probes RENAME COLUMN world TO world_id;
ALTER TABLE jobs RENAME COLUMN world TO world_id;
ALTER TABLE aliases RENAME COLUMN world TO world_id;
ALTER TABLE alias_moves RENAME COLUMN world TO world_id;
ALTER TABLE usage RENAME COLUMN world TO world_id;
ALTER TABLE words RENAME COLUMN world TO world_id;
ALTER TABLE calibrations RENAME COLUMN world TO world_id;
ALTER TABLE token_worlds RENAME COLUMN world TO world_id;
