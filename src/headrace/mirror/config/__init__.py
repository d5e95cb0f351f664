"""A mirror.properties: clusters, flows between them, and what each flow copies."""
