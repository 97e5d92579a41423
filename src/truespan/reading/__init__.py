"""Reading: what somebody who has come so far may see, and nothing past it.

Owns: positions and how they are set, the tail, retrieval for a reader.
Does not own: how text is cut (ingest), verified, ranked and packed (query).
Must hold: every byte that leaves depends on the sentences read and on what was declared, on nothing
else; the position comes from the store and from nowhere else; no position means nothing readable.
"""
