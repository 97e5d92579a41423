"""Checks of texts: whether a reply is supported by its sources, and personal data in documents.

Owns: the support check, and the sanitiser.
Does not own: the check of quotes, which every answer needs (answers).
Must hold: a check that is configured and missing refuses, and is never skipped.
"""
