"""Encryption of records at rest: keys in a file, data keys under them, records under those."""
