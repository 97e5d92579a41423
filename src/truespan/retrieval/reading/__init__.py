"""Retrieval for readers: the read part of one book, its tail, its pages and its chapters.

Must hold: nothing depends on text after the position of the reader.
"""
