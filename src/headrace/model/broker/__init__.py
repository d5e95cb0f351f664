"""The keys of a broker's configuration, one file per area."""
