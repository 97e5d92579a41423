"""The index on a Qdrant server or cluster.

Owns: collections, one for each embedding profile; their payload indexes, strictness and replicas;
how they are asked, and what an answer that is none becomes.
Does not own: text, which no payload has; aliases, which are the store's; the files and the memory
of the server.
Must hold: no request without world and generation touches a point; a search is exact unless the
operator named its world, and then never for a reader; the key is in no message.
"""
