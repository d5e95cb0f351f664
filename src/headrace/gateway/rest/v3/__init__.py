"""The resources of API v3, one file per family."""
