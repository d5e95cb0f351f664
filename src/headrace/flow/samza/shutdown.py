"""Tasks that ask for the end of their job, heard by the driver through the coordinator topic."""

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


class Requests:
    """Who has asked so far."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._asked: set[int] = set()
        self.is_over = False

    def hear(self, value: bytes) -> None:
        """One record of the coordinator topic; what is none of ours is passed over."""
        try:
            said = json.loads(value)
            task, scope = int(said["task"]), RequestScope(said["shutdown"])
        except (ValueError, KeyError, TypeError):
            return
        self._asked.add(task)
        everybody = scope is RequestScope.ALL_TASKS_IN_CONTAINER
        self.is_over = self.is_over or everybody or len(self._asked) >= self._tasks


def watch_shutdown(
    query: Any, client: Mapping[str, str], topic: str, *, first: int, tasks: int
) -> threading.Thread:
    """Stop a query when its tasks ask for it; in a thread that ends with the query.

    Args:
        first: the offset behind what earlier runs said.
    """
    thread = threading.Thread(
        target=_watch,
        args=(query, dict(client), topic, first, Requests(tasks)),
        name=f"shutdown-{topic}",
        daemon=True,
    )
    thread.start()
    return thread


def _watch(query: Any, client: dict[str, str], topic: str, first: int, requests: Requests) -> None:
    ranges = {TopicPartition(topic, 0): ReadRange(start=first)}
    try:
        with Reader(client, ranges, columns=["value"], follow=True, read_committed=True) as reader:
            while query.isActive and not requests.is_over:
                chunk = reader.poll(timeout_seconds=_LOOK_SECONDS)
                if chunk is not None:
                    for value in chunk.columns.column("value").to_pylist():
                        requests.hear(value or b"")
        if requests.is_over:
            query.stop()
    except ClientError as error:
        # The job itself goes on or fails by its own means.
        _log.warning("a job's shutdown requests are not heard any more", error=str(error))
