"""Topics copied between clusters, as MirrorMaker 2 is configured for it.

`config/` reads its file, `format/` its internal records. `process/` copies from one cluster to
another over Kafka's protocol alone.
"""
