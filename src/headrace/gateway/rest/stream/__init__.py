"""Topics as streams of records."""
