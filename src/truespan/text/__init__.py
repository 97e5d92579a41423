"""Canonical text: cleaning, sentences, headings, lists of contents, tables, language, alignment.

Owns: rules about text alone, whatever format it came from.
Does not own: file formats, chunks, storage.
Must hold: pure functions; what a rule says of a place depends on the text up to it, unless the
function says otherwise.
"""
