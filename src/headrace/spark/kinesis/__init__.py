"""Streams of Amazon Kinesis as Spark tables and streams: the data source `kinesis`."""
