"""The flows in the topic of runs: the newest record of each key."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.flow.error import FlowError
from headrace.flow.remote.remote_run import RemoteRun

# Anyone who may write to the topic can write keys: those that were silent longest go.
_MAX_RUNS: Final = 1_000
_MAX_BYTES: Final = 32 * 1024 * 1024
# As long as the topic keeps what is not written again.
_SILENT_MS: Final = 24 * 60 * 60 * 1000


class _Kept(NamedTuple):
    run: RemoteRun
    size_bytes: int


class RunTable:
    """Keeps the newest valid record per key. Pure: the reader of the topic adds records in their
    order."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()  # the longest silent first
        self._size_bytes = 0

    def add(self, key: bytes | None, value: bytes | None, seen_ms: int) -> None:
        """Add a record; one without a value removes the run with this key."""
        if key is None:
            return
        run = None if value is None else RemoteRun.from_record(key, value, seen_ms)
        if value is not None and run is None:
            return  # none of ours
        before = self._kept.pop(key, None)
        if before is not None:
            self._size_bytes -= before.size_bytes
        if run is not None and value is not None:
            self._kept[key] = _Kept(run, len(value))
            self._size_bytes += len(value)
            self._forget(seen_ms)

    def _forget(self, now_ms: int) -> None:
        kept = self._kept
        while kept:
            first = next(iter(kept.values()))
            silent = now_ms - first.run.seen_ms > _SILENT_MS
            if not silent and len(kept) <= _MAX_RUNS and self._size_bytes <= _MAX_BYTES:
                return
            self._size_bytes -= kept.popitem(last=False)[1].size_bytes

    def runs(self) -> list[RemoteRun]:
        """Return the runs, lost ones too, the oldest first."""
        runs = (each.run for each in self._kept.values())
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
