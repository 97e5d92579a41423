"""From what was retrieved to an answer: verified, visible hits -> decision -> answer.

Owns: the decision between the answer modes, what of the hits a model is given, replaying decisions.
Does not own: search, verification and reading positions (query), the models themselves (adapters).
Must hold: equal evidence gives an equal decision; only verified, visible hits count; the fallback
model is given no context; a reader gets no fallback answer; no chunk is cut to fit.
"""
