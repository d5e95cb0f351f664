"""The schema registry: Confluent's API on the topic `_schemas`."""
