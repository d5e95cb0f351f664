"""Who sent a request: access keys and Signature Version 4."""
