"""Files as sources of documents."""
