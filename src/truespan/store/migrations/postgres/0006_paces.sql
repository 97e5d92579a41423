-- When requests to a provider began or may begin, in the last minute and the next ones: all processes
-- together keep to one limit.
CREATE TABLE truespan_shared.paces (
  provider text COLLATE "C" NOT NULL,
  begins_at double precision NOT NULL
);
CREATE INDEX paces_by_moment ON truespan_shared.paces (provider, begins_at);
