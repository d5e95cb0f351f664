"""Programs from elsewhere, started for tests: Kafka, Flume, HDFS, PostgreSQL, ZooKeeper, Spark."""
