"""The vector index on Qdrant: embedded (Edge) or on a server.

Owns: collections, points, filters and scores; the process of the embedded index and its protocol.
Does not own: text, which lives in the store; the decision what may be shown.
Must hold: both kinds answer alike; scope and floor are applied inside the index; search is exact
unless the operator chose otherwise for a world, and always exact for a reader.
"""
