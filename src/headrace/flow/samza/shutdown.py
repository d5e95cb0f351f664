"""Shutdown requests of tasks, which the driver reads from the coordinator topic."""

import json
import threading
from collections.abc import Mapping
from typing import Any

import structlog

from headrace.client.error import ClientError
from headrace.client.read.read_range import ReadRange
from headrace.client.read.reader import Reader
from headrace.flow.samza.coordinator import RequestScope
from headrace.model.ids import TopicPartition

_LOOK_SECONDS = 0.5
_log = structlog.get_logger(__name__)


class ShutdownRequests:
    """The tasks that have requested a shutdown so far."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._requested: set[int] = set()
        self.is_over = False

    def add(self, value: bytes) -> None:
        """Add a record of the coordinator topic; one that is no request is ignored."""
        try:
            request = json.loads(value)
            task, scope = int(request["task"]), RequestScope(request["shutdown"])
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return
        self._requested.add(task)
        all_tasks = scope is RequestScope.ALL_TASKS_IN_CONTAINER
        self.is_over = self.is_over or all_tasks or len(self._requested) >= self._tasks


def watch_shutdown(
    query: Any, client: Mapping[str, str], topic: str, *, first: int, tasks: int
) -> threading.Thread:
    """Start a thread that stops a query when its tasks request it, and ends with the query.

    Args:
        first: the offset behind the requests of earlier runs.
    """
    thread = threading.Thread(
        target=_watch,
        args=(query, dict(client), topic, first, ShutdownRequests(tasks)),
        name=f"shutdown-{topic}",
        daemon=True,
    )
    thread.start()
    return thread


def _watch(
    query: Any, client: dict[str, str], topic: str, first: int, requests: ShutdownRequests
) -> None:
    ranges = {TopicPartition(topic, 0): ReadRange(start=first)}
    try:
        with Reader(client, ranges, columns=["value"], follow=True, read_committed=True) as reader:
            while query.isActive and not requests.is_over:
                chunk = reader.poll(timeout_seconds=_LOOK_SECONDS)
                if chunk is not None:
                    for value in chunk.columns.column("value").to_pylist():
                        requests.add(value or b"")
        if requests.is_over:
            query.stop()
    except ClientError as error:
        # The job itself goes on; a cluster that is gone fails its query too.
        _log.warning("shutdown_requests_unreadable", topic=topic, error=str(error))
