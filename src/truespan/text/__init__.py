"""Rules about text: cleaning, sentences, headings, contents lists, tables, language, alignment.

Owns: rules about text of any source format.
Does not own: file formats, chunks, storage.
Must hold: pure functions; the result for a place depends only on the text up to it, unless the
docstring says otherwise.
"""
