"""A plan as a running Spark query."""
