"""Retrievers for LangChain, LlamaIndex and Haystack.

Owns: the classes that these frameworks expect, around one shared way to ask and to cite.
Does not own: any decision about what is found or shown.
Must hold: the text is the verified text, and its metadata can be cited.
"""
