"""From what was retrieved to an answer: verified, visible hits -> decision -> words -> checks.

Owns: the decision between the answer modes, what of the hits a model is given and how it is told,
when a reply counts as one, citations and quotes, refusals in words, replaying decisions.
Does not own: search, verification and reading positions (query, reading), the models themselves
(adapters), the usage log (the store).
Must hold: equal evidence gives an equal decision; only verified, visible hits count; nothing is
given out before the mode is settled; text of a document cannot leave its source in a prompt; the
fallback model is given no context; a reader gets no fallback answer; no chunk is cut to fit; a
quote is verified only where its words stand in a used chunk.
"""
