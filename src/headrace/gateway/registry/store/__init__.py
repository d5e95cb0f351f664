"""The topic `_schemas`: read, written, and who of several instances writes."""
