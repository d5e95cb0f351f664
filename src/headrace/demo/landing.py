"""Writes views to Parquet files by hour."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace.demo.demo_audit import SETTINGS
from headrace.demo.topic import VIEWS
from headrace.flow.land import LOG, Landing, logged_files
from headrace.flow.storage.file_store import LocalFileStore

_COLUMNS = "page STRING, user STRING, at_ms BIGINT, status INT"
NAME = f"land-{VIEWS}"
_EVERY = {"processingTime": "5 seconds"}


def start_landing(spark: Any, *, address: str, folder: Path, checkpoint: Path) -> Any:
    """Start the stream and return its query."""
    landing = Landing(
        topics=VIEWS,
        brokers=address,
        folder=str(folder),
        format="json",
        columns=_COLUMNS,
        options=SETTINGS,
    )
    return landing.start(spark, checkpoint=str(checkpoint), trigger=_EVERY)


def landed_rows(folder: Path) -> int:
    """Count the rows in the files of finished batches."""
    if not (folder / LOG).exists():
        return 0
    return sum(pq.read_metadata(each).num_rows for each in logged_files(LocalFileStore(folder)))
