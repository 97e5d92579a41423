"""The index on a Qdrant server or cluster.

Owns: collections, one for each embedding profile; their payload indexes, strict mode and replicas;
requests to the server and the errors for its failures.
Does not own: text, which no payload has; which generation is active, which the store decides; the
files and the memory of the server.
Must hold: no request without world and generation touches a point; a search is exact unless the
operator named its world, and always exact for a reader; no message contains the key.
"""
