"""Topics as streaming tables: statements of ours around Spark's own SQL."""
