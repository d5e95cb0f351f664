"""JSON Schema: documents of five drafts as a tree of schemas, and how two of them differ."""
