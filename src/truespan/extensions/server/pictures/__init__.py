"""Pictures of pages, drawn from the stored originals."""
