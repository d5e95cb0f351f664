"""The module by which Spark finds the data source `headrace` without any setting.

Spark imports every top-level module called `pyspark_*` when it first looks for data sources, and
registers its `DefaultSource`. Keep this import light: every session that uses any Python data
source loads it.
"""

from headrace.spark.data_source import HeadraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
