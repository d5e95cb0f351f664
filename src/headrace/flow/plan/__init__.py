"""What a program does, independent of Spark: components, streams, stages."""
