"""The resources of API v2, one file per family."""
