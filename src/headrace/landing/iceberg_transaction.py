"""A transaction of an Iceberg table that PyIceberg commits once, and does not repeat.

A commit that is repeated would bring offsets, or files, that another commit has replaced meanwhile.
But one that is reported as failed may be in the table: its answer was lost, say, and the request
sent again. PyIceberg looks for its snapshot only before it repeats a commit, and without a repeat
removes the manifests at once. So it is left one repeat, which ends after that look.
"""

from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as Iceberg
from pyiceberg.table import Transaction

_ONE_LOOK: Final = {
    "commit.retry.num-retries": "1",
    "commit.retry.min-wait-ms": "0",
    "commit.retry.max-wait-ms": "0",
    "commit.retry.total-timeout-ms": str(24 * 3_600_000),
}


class SingleCommit(Transaction):
    """Raises CommitFailedException only if its snapshot is not in the table."""

    def __init__(self, table: Iceberg) -> None:
        metadata = table.metadata
        once = {**metadata.properties, **_ONE_LOOK}
        # Only in memory: the catalog is sent changes, and this is none.
        table.metadata = metadata.model_copy(update={"properties": once})
        super().__init__(table)

    def _rebuild_snapshot_updates(self) -> None:
        """PyIceberg calls it to repeat a commit whose snapshot is not in the table."""
        raise CommitFailedException("another commit came first")
