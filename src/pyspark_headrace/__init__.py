"""Where Spark finds the data source `headrace` without being told.

Spark imports every top-level module called `pyspark_*` when it first looks for data sources, and
registers the `DefaultSource` it finds there. Keep this import light: every session that uses any
Python data source pays for it.
"""

from headrace.spark.data_source import HeadraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
