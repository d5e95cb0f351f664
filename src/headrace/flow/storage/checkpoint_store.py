"""The files of a query's checkpoint, as a start finds them."""

from typing import Any

from headrace.flow.storage.file_store import FileStore, numbered
from headrace.flow.storage.hadoop_file_store import open_store
from headrace.flow.storage.location import Location

_OFFSETS = "offsets"


def open_checkpoint(spark: Any, location: Location) -> FileStore:
    """Open the checkpoint of a query that is about to start.

    Raises:
        FlowError: executors on other machines would not reach it.
    """
    store = open_store(spark, location, "the checkpoint")
    remove_unfinished(store)
    return store


def remove_unfinished(checkpoint: FileStore) -> None:
    """Remove what a driver left that was killed while it stored its very first micro-batch.

    Spark writes a file under a name that begins with a dot, and renames it. It refuses a checkpoint
    without a first batch whose folder is not empty, and thus one with such a file, for good. No
    record was processed then.
    """
    names = checkpoint.names(_OFFSETS)
    if not numbered(names) and all(name.startswith(".") for name in names):
        for name in names:
            checkpoint.remove(f"{_OFFSETS}/{name}")
