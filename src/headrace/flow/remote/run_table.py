"""The flows in the topic of runs: the newest record of each key."""

from collections.abc import Iterable
from typing import Final

from headrace.flow.error import FlowError
from headrace.flow.remote.remote_run import RemoteRun

# Anyone who may write to the topic can write keys: what is beyond is not kept.
_MAX_KEYS: Final = 10_000


class RunTable:
    """Keeps the newest record per key. Pure: the reader of the topic adds records in their
    order."""

    def __init__(self) -> None:
        self._records: dict[bytes, tuple[bytes, int]] = {}

    def add(self, key: bytes | None, value: bytes | None, seen_ms: int) -> None:
        """Add a record; one without a value removes the run with this key."""
        if key is None:
            return
        if value is None:
            self._records.pop(key, None)
        elif key in self._records or len(self._records) < _MAX_KEYS:
            self._records[key] = value, seen_ms

    def runs(self) -> list[RemoteRun]:
        """Return the runs, lost ones too, the oldest first."""
        runs = [
            run
            for key, (value, seen_ms) in self._records.items()
            if (run := RemoteRun.from_record(key, value, seen_ms)) is not None
        ]
        return sorted(runs, key=lambda each: (each.started_ms, each.application))


def runs_named(runs: Iterable[RemoteRun], name: str, now_ms: int) -> list[RemoteRun]:
    """Return the runs with this name or application; lost ones only if no other has it."""
    named = [each for each in runs if name in (each.name, each.application)]
    reporting = [each for each in named if not each.is_lost(now_ms)]
    return reporting or named


def check_reporting(run: RemoteRun, now_ms: int) -> None:
    """Refuse a run of which nothing is known any more.

    Raises:
        FlowError: it is lost.
    """
    if run.is_lost(now_ms):
        seconds = (now_ms - run.seen_ms) // 1_000
        raise FlowError(
            f"{run.name} ({run.application}) has not reported for {seconds} s: its driver on"
            f" {run.host} was killed, or does not reach the brokers"
        )


def check_reachable(run: RemoteRun, now_ms: int) -> None:
    """Refuse to ask something of a run that cannot answer.

    Raises:
        FlowError: it is lost, or receives no requests.
    """
    check_reporting(run, now_ms)
    if run.deaf is not None:
        raise FlowError(f"{run.name} ({run.application}) receives no requests: {run.deaf}")
