"""The data source as Spark makes it, for every `load()`, in a process of its own."""

import pickle
import subprocess
import sys

import pytest

from headrace.model.error import ConfigError
from headrace.spark.data_source import HeadraceDataSource

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "clicks"}


def test_its_name_is_the_format() -> None:
    assert HeadraceDataSource.name() == "headrace"


def test_spark_finds_it_by_the_name_of_a_module() -> None:
    import pyspark_headrace
    import pyspark_headrace_kinesis

    assert pyspark_headrace.DefaultSource is HeadraceDataSource
    assert pyspark_headrace_kinesis.DefaultSource.name() == "kinesis"


def test_the_schema_needs_no_broker() -> None:
    found = HeadraceDataSource({**OPTIONS, "valueFormat": "json", "valueSchema": "a INT"}).schema()

    assert found.startswith("`key` BINARY, `value` STRUCT<a INT>, `topic` STRING")


def test_wrong_options_are_reported_with_the_schema() -> None:
    with pytest.raises(ConfigError, match="did you mean subscribe"):
        HeadraceDataSource({**OPTIONS, "subscribed": "x"}).schema()


def test_it_pickles() -> None:
    sent = pickle.loads(pickle.dumps(HeadraceDataSource(OPTIONS)))

    assert sent.options == OPTIONS


def test_a_schema_loads_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from headrace.spark.data_source import HeadraceDataSource\n"
        f"HeadraceDataSource({OPTIONS!r}).schema()\n"
        "print([name for name in ('numba', 'numpy', 'pyarrow', 'kio') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
