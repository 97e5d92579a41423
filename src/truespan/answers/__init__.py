"""Answers: verified, visible chunks -> decision -> model -> checked text.

Owns: the decision between the answer modes, which chunks a model gets and the prompt, when a reply
counts as one, citations, quotes and support, the text of refusals, and how a question of a
conversation is made to stand alone.
Does not own: search, verification and reading positions (retrieval), the models (providers), the
usage log (the store).
Must hold: equal evidence gives an equal decision; only verified, visible chunks count; nothing is
returned before the mode is decided; text of a document cannot leave its source in a prompt; the
fallback model gets no context; a reader gets no fallback answer; no chunk is cut to fit; a quote is
verified only if its words occur in a used chunk; what earlier turns said is never evidence.
"""
