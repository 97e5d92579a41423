-- What a page is: 'page', 'slide', 'line', 'cell', or 'row A:F' in a sheet. Its checksum covers it
-- unless it is 'page', as all were before.
ALTER TABLE pages ADD COLUMN unit TEXT NOT NULL DEFAULT 'page';
