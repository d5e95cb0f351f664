"""What a worker has imported is not collected after every task."""

import subprocess
import sys

SCRIPT = """
import gc, sys
from headrace.spark.worker_memory import freeze_modules
freeze_modules()
first = gc.get_freeze_count()
kept = [[number] for number in range(1000)]
freeze_modules()
assert gc.get_freeze_count() == first, "nothing was imported, so nothing is new for good"
import sqlite3.dbapi2
freeze_modules()
assert gc.get_freeze_count() > first, "what was imported since stays as well"
for number in range(100):
    sys.modules[f"made-up-{number}"] = gc
    freeze_modules()
most = gc.get_freeze_count()
kept2 = [[number] for number in range(1000)]
sys.modules["one-more"] = gc
freeze_modules()
assert gc.get_freeze_count() <= most, "an importer without end is left alone"
"""

PLANNING = """
import gc
from pyspark.sql.types import BinaryType, StructField, StructType
from headrace.spark.data_source import HeadraceDataSource
assert gc.get_freeze_count() == 0
source = HeadraceDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "copies"})
source.streamWriter(StructType([StructField("value", BinaryType())]), False)
assert gc.get_freeze_count() > 10_000, gc.get_freeze_count()
"""


def test_a_process_that_plans_micro_batches_settles_too() -> None:
    """Spark collects garbage after each plan and each commit of a micro-batch as well."""
    done = subprocess.run([sys.executable, "-c", PLANNING], check=False, timeout=120)

    assert done.returncode == 0


def test_a_worker_settles_when_it_has_imported_something_and_not_without_end() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=False, timeout=120)

    assert done.returncode == 0
