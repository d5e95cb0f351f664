"""`headrace topic`: topics and their records."""
