"""One segment's files, and the list of a partition's segments."""
