"""The format `headrace` of Spark: topics read and written, in batches and in streams.

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


class HeadraceDataSource(DataSource):
    """`format("headrace")`, with the options of Spark's own Kafka connector.

    Example:
        spark.readStream.format("headrace")
            .option("kafka.bootstrap.servers", "127.0.0.1:9092")
            .option("subscribe", "clicks")
            .load()
    """

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> "str | StructType":
        """Return the columns. Wrong options are reported here, when the user calls `load()`."""
        from headrace.spark.source.option import SourceOptions
        from headrace.spark.source.schema import source_ddl, source_type

        options = SourceOptions.of(self.options)
        headers, corrupt = options.include_headers, options.corrupt_column
        key, value = options.key_format, options.value_format
        if key.registry is not None or value.registry is not None:
            return source_type(headers=headers, key=key, value=value, corrupt_column=corrupt)
        return source_ddl(headers=headers, key=key.ddl(), value=value.ddl(), corrupt_column=corrupt)

    def reader(self, schema: "StructType") -> DataSourceReader:
        from headrace.spark.source.batch import BatchSource
        from headrace.spark.source.option import SourceOptions

        return BatchSource(SourceOptions.of(self.options), schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802
        from headrace.spark.source.option import SourceOptions
        from headrace.spark.source.stream import StreamSource

        return StreamSource(SourceOptions.of(self.options), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        from headrace.spark.sink.sink import BatchSink

        return BatchSink(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> DataSourceStreamWriter:
        from headrace.spark.sink.sink import StreamSink

        return StreamSink(self.options, schema, overwrite)
