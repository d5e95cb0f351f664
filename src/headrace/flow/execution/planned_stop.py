"""At most once: a stop that was asked for loses no batch.

Spark begins the next batch as soon as one ends, and a stop interrupts it. After a crash it is not
known what such a batch has written, so it is skipped (`skip_unfinished`). At a stop Spark refuses
to begin another job. A batch without a job has read and written nothing.

Rule 1: jobs are refused after a batch, while the next one has none yet. Then the query is stopped.
Rule 2: after the stop, an unfinished batch without a job is recorded in the checkpoint; the next
        start runs it. One with a job is skipped.
Rule 3: where Spark does not say what it ran, the batch counts as run: it must not run twice.
"""

import re
from typing import Any, Final

from headrace.flow.execution.skip_unfinished import last_committed, record_not_run, unfinished
from headrace.flow.storage.file_store import FileStore

# How Spark describes the jobs of a streaming query.
_DESCRIPTION: Final = re.compile(r"runId = (\S+?)(?:<br/>|\s)+batch = (\d+)\s*\Z")
_UNKNOWN: Final = 1 << 62


class PlannedStop:
    """Stops the batches of one flow between two of them.

    Args:
        context: Spark's own context, in Java.
        checkpoint: the flow's.
    """

    def __init__(self, context: Any, checkpoint: FileStore) -> None:
        self._context = context
        self._checkpoint = checkpoint
        self._recorded: int | None = None
        self._held: str | None = None

    def hold(self, query: Any) -> bool:
        """Refuse all further jobs of a query; return False, and change nothing, if one runs."""
        if self._newest_batch(query) > last_committed(self._checkpoint):
            return False
        self._held = str(query.runId)
        self._context.cancelJobGroupAndFutureJobs(self._held)
        return True

    def caused(self, failure: object) -> bool:
        """Return whether a query failed because its jobs were refused, before it was stopped."""
        text = str(failure)
        return self._held is not None and self._held in text and "cancel" in text.lower()

    def record(self, query: Any) -> None:
        """Record the unfinished batch of a query that has ended, if it has not run."""
        self._recorded = None
        begun = unfinished(self._checkpoint)
        if begun and self._newest_batch(query) < begun[0]:
            self._recorded = begun[0]
            self.restore()

    def restore(self) -> None:
        """Record it again: a start that failed has used up the record, and run nothing."""
        if self._recorded is not None:
            record_not_run(self._checkpoint, self._recorded)

    def _newest_batch(self, query: Any) -> int:
        """Return the newest batch of which Spark began a job; -1: of none."""
        from py4j.protocol import Py4JJavaError

        try:
            self._context.listenerBus().waitUntilEmpty()
            jobs = self._context.statusStore().jobsList(None)  # the newest first
        except Py4JJavaError:
            return _UNKNOWN
        if jobs.isEmpty():
            return -1
        description = jobs.head().description()
        found = _DESCRIPTION.search(description.get()) if description.isDefined() else None
        if found is None:
            return _UNKNOWN
        return int(found[2]) if found[1] == str(query.runId) else -1
