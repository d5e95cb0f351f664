"""Topics out, as Arrow columns."""
