-- Which defaults the requests of a world have: 'recommended' or 'contract'. Worlds made before keep
-- those they had. The checksum of the row covers it.
ALTER TABLE worlds ADD COLUMN defaults TEXT NOT NULL DEFAULT 'contract';
