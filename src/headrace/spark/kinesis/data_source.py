"""The format `kinesis` of Spark: streams read and written, in batches and in streams.

Spark creates an object of this class for every DataFrame, in a Python process of its own, and sends
it to other processes pickled. Heavy modules are imported where they are needed.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class KinesisDataSource(DataSource):
    """`format("kinesis")`, with the options of AWS's connector `aws-kinesis`.

    Example:
        spark.readStream.format("kinesis")
            .option("kinesis.streamName", "clicks")
            .option("kinesis.endpointUrl", "http://127.0.0.1:4567")
            .option("kinesis.startingPosition", "TRIM_HORIZON")
            .load()
    """

    @classmethod
    def name(cls) -> str:
        return "kinesis"

    def schema(self) -> str:
        """Return the columns. Wrong options are reported here, when the user calls `load()`."""
        from headrace.spark.kinesis.column import SOURCE_DDL
        from headrace.spark.kinesis.option import read_source_options

        # LATEST is an error only of a batch, which this method does not know yet.
        read_source_options(self.options, streaming=True)
        return SOURCE_DDL

    def reader(self, schema: "StructType") -> DataSourceReader:
        from headrace.spark.kinesis.batch import KinesisBatch
        from headrace.spark.kinesis.option import read_source_options

        return KinesisBatch(read_source_options(self.options, streaming=False), schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802
        from headrace.spark.kinesis.option import read_source_options
        from headrace.spark.kinesis.stream import KinesisStream

        return KinesisStream(read_source_options(self.options, streaming=True), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        from headrace.spark.kinesis.sink import KinesisBatchSink

        return KinesisBatchSink(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> DataSourceStreamWriter:
        from headrace.spark.kinesis.sink import KinesisStreamSink

        return KinesisStreamSink(self.options, schema)
