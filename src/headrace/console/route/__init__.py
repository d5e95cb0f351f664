"""The API of the page: one noun per file, all in JSON below `/api`."""
