"""The Kinesis API on the log: a stream is a topic, a shard is a partition with a hash range."""
