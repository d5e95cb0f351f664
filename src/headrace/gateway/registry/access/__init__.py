"""Who may read and write which subjects."""
