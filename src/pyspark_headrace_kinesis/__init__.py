"""The module by which Spark finds the data source `kinesis` without any setting.

See `pyspark_headrace`: Spark registers one `DefaultSource` per module. Keep this import light.
"""

from headrace.spark.kinesis.data_source import KinesisDataSource as DefaultSource

__all__ = ["DefaultSource"]
