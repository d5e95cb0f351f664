"""Starting a plan as a Spark query."""
