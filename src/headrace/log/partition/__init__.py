"""One partition's log: opening, appending, reading, truncating, retention."""
