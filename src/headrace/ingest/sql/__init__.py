"""What the sql source and the sql sink share: a database, its values and its statements."""
