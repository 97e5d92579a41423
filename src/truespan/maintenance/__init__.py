"""Maintenance of a library: repairs that retrieval queued, the doctor, deletion.

Owns: applying repairs, comparing store and index both ways, deleting and erasing.
Does not own: verification at read time (retrieval), embedding and activation (ingest).
Must hold: a point is deleted only while its hash is the one that was found wrong; text is only
restored to bytes that match their recorded hash.
"""
