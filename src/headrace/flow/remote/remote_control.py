"""What commands and the console do with flows of other machines, through the brokers: look, ask
and wait."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa

from headrace.client.error import BrokerError, ClientError, WriteFailed
from headrace.client.read.read_range import LogEdge
from headrace.client.read.reader import Reader
from headrace.client.read.table_reader import TableReader
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.flow.monitoring.run_folder import CHANGE_SECONDS
from headrace.flow.remote.control_topic import (
    COLUMNS,
    IN_FLIGHT_BYTES,
    open_reader,
    open_writer,
    records_of,
    write,
)
from headrace.flow.remote.remote_request import MAX_BYTES, Action, RemoteRequest
from headrace.flow.remote.remote_run import RemoteRun
from headrace.flow.remote.run_table import RunTable, check_reachable
from headrace.flow.remote.topic_name import REQUESTS, RUNS
from headrace.model.clock import Clock, SystemClock
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

STOP_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 0.5
# Commands are for people: one that reaches no broker says so soon.
COMMAND_LIMITS: Final = {
    "default.api.timeout.ms": "10000",
    "request.timeout.ms": "5000",
    "socket.connection.setup.timeout.ms": "5000",
}


class RemoteControl:
    """The flows that the brokers of one cluster know of.

    Threads: `runs` and `refreshed` share what was read, so one thread alone calls them. The other
    methods are for any.

    Args:
        settings: how to reach them. A command for people sets `COMMAND_LIMITS`, too.
    """

    def __init__(self, settings: ClientSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._table = _FollowedRuns()
        self._reader = TableReader(
            settings,
            TopicPartition(RUNS, 0),
            self._table,
            columns=COLUMNS,
            max_bytes_in_flight=IN_FLIGHT_BYTES,
        )

    @property
    def now_ms(self) -> int:
        return self._clock.wall_ms()

    def runs(self) -> list[RemoteRun]:
        """Return the runs in the topic, lost ones too, the oldest first.

        The first call reads the topic, the next ones what is new in it.

        Raises:
            FlowError: the topic cannot be read.
        """
        try:
            self._reader.update()
        except ClientError as error:
            raise _explained(error, RUNS, "read") from error
        return self._table.table.runs()

    def refreshed(self, run: RemoteRun) -> RemoteRun:
        """Return the run as it reported last.

        Raises:
            FlowError: it has ended.
        """
        for each in self.runs():
            if each.key == run.key and each.instance == run.instance:
                return each
        raise FlowError(f"{run.name} has ended")

    def restart(self, run: RemoteRun) -> None:
        self.ask(run, RemoteRequest(action=Action.RESTART, target=run.target))

    def activate(self, run: RemoteRun) -> None:
        self.ask(run, RemoteRequest(action=Action.ACTIVATE, target=run.target))

    def deactivate(self, run: RemoteRun) -> None:
        self.ask(run, RemoteRequest(action=Action.DEACTIVATE, target=run.target))

    def rebalance(
        self, run: RemoteRun, parallelism: Mapping[str, int], partitions: int | None
    ) -> None:
        self.ask(
            run,
            RemoteRequest(
                action=Action.REBALANCE,
                target=run.target,
                parallelism=parallelism,
                partitions=partitions,
            ),
        )

    def stop(self, run: RemoteRun, *, now: bool = False) -> None:
        """Stop a flow as `RunFolder.stop` does, and return when its driver has ended."""
        request = RemoteRequest(action=Action.STOP, target=run.target, now=now)
        self.ask(run, request, seconds=STOP_SECONDS)

    def ask(self, run: RemoteRun, request: RemoteRequest, seconds: float = CHANGE_SECONDS) -> None:
        """Send a request to a driver, and wait until it is done.

        Raises:
            FlowError: the driver could not do it, or not in that time; or the topics cannot be
                used.
        """
        check_reachable(run, self.now_ms)
        value = request.to_value()
        if len(value) > MAX_BYTES:
            raise FlowError(f"a request to {run.name} has at most {MAX_BYTES} bytes")
        try:
            reader = open_reader(self._settings, RUNS, LogEdge.LATEST)
        except ClientError as error:
            raise _explained(error, RUNS, "read") from error
        if reader is None:
            raise FlowError(f"the topic {RUNS} is gone")
        with reader:
            self._send(value)
            answer = None
            try:
                answer = _wait(reader, run, request, seconds)
            except ClientError as error:
                raise _explained(error, RUNS, "read") from error
            finally:
                if answer is None:
                    self._withdraw(request)
        if answer is None:
            raise FlowError(f"{run.name} ({run.application}) did not do it in {seconds:g} s")
        if answer.problem is not None:
            raise FlowError(answer.problem)

    def _withdraw(self, request: RemoteRequest) -> None:
        withdrawal = RemoteRequest(action=Action.WITHDRAW, target=request.target, id=request.id)
        with suppress(FlowError):  # there is a better reason to report
            self._send(withdrawal.to_value())

    def _send(self, value: bytes) -> None:
        try:
            with open_writer(self._settings, REQUESTS) as writer:
                write(writer, b"", value)
        except ClientError as error:
            raise _explained(error, REQUESTS, "write to") from error


class _FollowedRuns:
    """The runs that the records of the topic describe."""

    def __init__(self) -> None:
        self.table = RunTable()

    def clear(self) -> None:
        self.table = RunTable()

    def add(self, columns: pa.RecordBatch) -> None:
        for seen_ms, key, value in records_of(columns):
            self.table.add(key, value, seen_ms)


class Answer(NamedTuple):
    """How a request ended: why it failed, or None."""

    problem: str | None = None


def _wait(reader: Reader, run: RemoteRun, request: RemoteRequest, seconds: float) -> Answer | None:
    """Return how the request ended; None if it did not before the time was over."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        chunk = reader.poll(min(left, _POLL_SECONDS))
        for seen_ms, key, value in [] if chunk is None else records_of(chunk.columns):
            if key == run.key and (answer := answer_in(run, request, value, seen_ms)) is not None:
                return answer
    return None


def answer_in(
    run: RemoteRun, request: RemoteRequest, value: bytes | None, seen_ms: int
) -> Answer | None:
    """Return how the request ended, as one record of its run says; None if it does not."""
    stopping = request.action is Action.STOP
    # A record without a value does not say whose it is: an earlier attempt may end late.
    now = None if value is None else RemoteRun.from_record(run.key, value, seen_ms)
    if now is None or now.instance != run.instance:
        return None
    outcomes = dict(now.outcomes)
    if now.ended and outcomes.get(request.id) is None:
        done = stopping or request.id in outcomes
        return Answer(None if done else f"{run.name} ended before it was done")
    if request.id not in outcomes:
        return None
    problem = outcomes[request.id]
    # A stop that was accepted is done when the driver has ended.
    return None if problem is None and stopping else Answer(problem)


def _explained(error: ClientError, topic: str, what: str) -> FlowError:
    reason = error.reason if isinstance(error, WriteFailed) else error.__cause__ or error
    denied = isinstance(reason, BrokerError) and reason.code in (
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    )
    if denied:
        return FlowError(
            f"this user may not {what} the topic {topic}, in which flows of other machines report"
            " and are asked: an ACL must allow it"
        )
    return FlowError(f"cannot {what} the topic {topic}: {error}")
