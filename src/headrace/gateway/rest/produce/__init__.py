"""Records on their way into topics: parsed, queued, written."""
