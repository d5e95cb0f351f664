"""What runs in Spark's Python workers: chunks in, bolts called with columns, chunks out."""
