"""A stop between two batches, with a real query that always has another batch to run."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.cli.flow.execution import finish
from headrace.flow.execution.planned_stop import PlannedStop
from headrace.flow.execution.skip_unfinished import last_committed, skip_unfinished, unfinished
from headrace.flow.storage.file_store import LocalFileStore
from headrace.testing.readiness import wait_until


def test_no_batch_is_skipped_by_a_stop(spark: SparkSession, tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path)
    stop = PlannedStop(spark.sparkContext._jsc.sc(), store)  # type: ignore[attr-defined]

    def start() -> Any:
        skip_unfinished(store, stateful=False)
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        written = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        return written.start()

    for _ in range(3):
        query = start()
        before = last_committed(store)
        wait_until(lambda: last_committed(store) > before + 1, what="batches", timeout_seconds=300)  # noqa: B023
        finish(query, hold=stop.hold)
        stop.record(query)
        left = unfinished(store)
        skip_unfinished(store, stateful=False)

        assert unfinished(store) == left
        stop.restore()
        assert query.exception() is None or stop.caused(query.exception())
