"""What the page asks the console for, one noun a file, all in JSON below `/api`."""
