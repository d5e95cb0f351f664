"""Topics as Spark tables and streams: the data source `headrace`, its source and its sink."""
