"""A driver's side: it reports its run to the brokers, and does what commands ask through them.

The link stands for a user of the driver's machine: it looks into the folder of runs there, reports
what it finds, and hands requests over as a local command would. The flow does not know of it.

Rule 1: nothing that goes wrong here reaches the flow. Brokers that refuse or do not answer are
        logged once, and tried again later.
Rule 2: requests are read from where the topic ended before the first report, so none is missed that
        was sent after it. They are carried out one after the other, in a thread of their own:
        reports go on meanwhile.
Rule 3: a run whose requests cannot be read reports nevertheless, and why.

Threads: one for the topics, and one for the request that is carried out.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final

import structlog

from headrace.client.error import BrokerError, ClientError
from headrace.client.read.read_range import LogEdge
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.flow.error import FlowError
from headrace.flow.monitoring.metrics import FlowFigures
from headrace.flow.monitoring.run_folder import Run, RunFolder
from headrace.flow.remote.control_topic import (
    create_missing_topics,
    open_reader,
    open_writer,
    records_of,
    write,
)
from headrace.flow.remote.remote_request import Action, RemoteRequest, RequestQueue
from headrace.flow.remote.remote_run import (
    HEARTBEAT_SECONDS,
    RemoteRun,
    instance_of,
    public_text,
    remote_run,
    run_key,
    target_of,
)
from headrace.flow.remote.topic_name import REQUESTS, RUNS
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)
_POLL_SECONDS: Final = 0.25
# The first pause is short: another driver may create the topics just now. The longest is less than
# it takes to be lost: a broker that restarts is no reason to look dead.
_FIRST_RETRY_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 10.0
_MAX_OUTCOMES: Final = 32
# Then reports have their turn, whatever else comes.
_MAX_CHUNKS: Final = 16
_MAX_PROBLEM_LENGTH: Final = 1_000
_LIMITS: Final = {"default.api.timeout.ms": "10000", "client.id": "headrace-flow-control"}

Outcome = tuple[str, str | None]


class DriverLink:
    """Connects the run of this process with the topics, inside its `with` block.

    Args:
        settings: how the flow reaches its brokers, for `ClientSettings.of`.
        name: the flow's.
        application: Spark's id of the application.
        figures: returns the figures of now.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        name: str,
        application: str,
        figures: Callable[[], FlowFigures],
        run_folder: RunFolder | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._settings = ClientSettings.of({**settings, **_LIMITS})
        self._key = run_key(name, application)
        self._name, self._application = name, application
        self._figures = figures
        self._run_folder = run_folder or RunFolder()
        self._heartbeat_seconds = heartbeat_seconds
        self._host = socket.gethostname()
        self._closed = Event()
        self._thread = Thread(target=self._serve, name="flow-control", daemon=True)
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._position: int | LogEdge = LogEdge.LATEST
        self._deaf: str | None = None
        self._listen_at = 0.0
        self._retry_seconds = _FIRST_RETRY_SECONDS
        self._report_at = 0.0
        self._reported: RemoteRun | None = None
        self._complaints: dict[str, str] = {}
        self._run: Run | None = None
        self._queue: RequestQueue | None = None
        self._worker: Thread | None = None
        self._done: SimpleQueue[Outcome] = SimpleQueue()
        self._outcomes: list[Outcome] = []

    def __enter__(self) -> "DriverLink":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(_CLOSE_SECONDS)

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                self._step()
            except Exception as error:  # noqa: BLE001 - rule 1
                self._complain("flow_control_unavailable", error)
                self._disconnect()
                self._closed.wait(self._pause_seconds())
        try:
            if self._reported is not None and self._writer is not None:
                write(self._writer, self._key, replace(self._reported, ended=True).to_value())
                write(self._writer, self._key, None)
        except Exception as error:  # noqa: BLE001 - rule 1
            self._complain("flow_control_unavailable", error)
        self._disconnect()

    def _step(self) -> None:
        if self._run is None:
            self._run = self._own_run()
            if self._run is None:
                self._closed.wait(_POLL_SECONDS)  # it has not begun yet
                return
            self._queue = RequestQueue(target_of(self._key, instance_of(self._run, self._host)))
        if self._writer is None:
            self._create_topics()
            self._writer = open_writer(self._settings, RUNS)
        self._listen()
        self._receive()
        self._begin_next(self._run)
        self._collect()
        if time.monotonic() >= self._report_at:
            self._report()

    def _own_run(self) -> Run | None:
        return self._run_folder.run_of(os.getpid(), self._name)

    def _create_topics(self) -> None:
        try:
            create_missing_topics(self._settings)
        except ClientError as error:
            # One of them may be there.
            self._complain("flow_control_unavailable", error)

    def _listen(self) -> None:
        """Open the topic of requests, or find out why that is not possible (rule 3)."""
        if self._reader is not None or time.monotonic() < self._listen_at:
            return
        try:
            self._reader = open_reader(self._settings, REQUESTS, self._position)
            self._deaf = None if self._reader is not None else f"there is no topic {REQUESTS}"
        except ClientError as error:
            self._deaf = f"its driver cannot read {REQUESTS}: {error}"
        if self._reader is None:
            self._listen_at = time.monotonic() + self._pause_seconds()
            self._complain("flow_requests_unavailable", self._deaf)
        else:
            self._position = next(iter(self._reader.positions.values()))

    def _receive(self) -> None:
        """Add the requests that have come to the queue, so that a withdrawal counts before its
        request is begun."""
        if self._reader is None:
            self._closed.wait(_POLL_SECONDS)
            return
        assert self._queue is not None
        try:
            chunk = self._reader.poll(_POLL_SECONDS)
            for _ in range(_MAX_CHUNKS):
                if chunk is None:
                    break
                for _, _, value in records_of(chunk.columns):
                    request = RemoteRequest.from_value(value)
                    refused = None if request is None else self._queue.add(request)
                    if request is not None and refused is not None:
                        self._done.put((request.id, refused))
                self._position = chunk.next_offset
                chunk = self._reader.poll(0.0)
        except ClientError as error:
            self._reader.close()
            self._reader = None
            if isinstance(error, BrokerError) and error.code is ErrorCode.unknown_topic_id:
                self._position = LogEdge.EARLIEST  # the offsets of a new topic are others
            self._deaf = f"its driver cannot read {REQUESTS}: {error}"
            self._listen_at = time.monotonic() + self._pause_seconds()
            self._complain("flow_requests_unavailable", error)

    def _begin_next(self, run: Run) -> None:
        if self._worker is not None and self._worker.is_alive():
            return
        assert self._queue is not None
        request = self._queue.take()
        if request is None:
            return
        _log.info("flow_request", flow=self._name, action=request.action.value)
        self._worker = Thread(
            target=self._carry_out, args=(run, request), name="flow-request", daemon=True
        )
        self._worker.start()

    def _carry_out(self, run: Run, request: RemoteRequest) -> None:
        problem = None
        try:
            carry_out(self._run_folder, run, request)
        except FlowError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - rule 1
            problem = f"{self._name} could not do it: {type(error).__name__}: {error}"
        self._done.put((request.id, problem))

    def _collect(self) -> None:
        """Take over what has been carried out, and report it now."""
        try:
            while True:
                number, problem = self._done.get_nowait()
                shown = None if problem is None else public_text(problem)
                self._outcomes = [*self._outcomes, (number, shown)][-_MAX_OUTCOMES:]
                self._report_at = 0.0
        except Empty:
            return

    def _report(self) -> None:
        assert self._writer is not None
        self._report_at = time.monotonic() + self._heartbeat_seconds
        run = self._own_run()
        if run is None:
            return  # it ends
        report = remote_run(
            run, application=self._application, host=self._host, figures=self._figures_now()
        )
        report = replace(
            report,
            deaf=None if self._deaf is None else public_text(self._deaf),
            outcomes=tuple(self._outcomes),
        )
        write(self._writer, self._key, report.to_value())
        self._reported = report

    def _figures_now(self) -> FlowFigures | None:
        try:
            return self._figures()
        except Exception as error:  # noqa: BLE001 - Spark's, while its query starts again
            self._complain("flow_figures_unavailable", error)
            return None

    def _pause_seconds(self) -> float:
        """Return how long to wait after a failure: twice as long as after the last one."""
        pause = min(self._retry_seconds, _RETRY_SECONDS)
        self._retry_seconds = 2 * pause
        return pause

    def _complain(self, event: str, error: object) -> None:
        text = str(error)[:_MAX_PROBLEM_LENGTH]
        if text != self._complaints.get(event):
            self._complaints[event] = text
            _log.warning(event, flow=self._name, error=text)

    def _disconnect(self) -> None:
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        if writer is not None:
            writer.abandon()
        if reader is not None:
            reader.close()


def carry_out(run_folder: RunFolder, run: Run, request: RemoteRequest) -> None:
    """Do what a request asks, as a command on the driver's machine would.

    Raises:
        FlowError: the flow could not do it.
    """
    match request.action:
        case Action.STOP:
            run_folder.stop(run, now=request.now)
        case Action.RESTART:
            run_folder.restart(run)
        case Action.ACTIVATE:
            run_folder.activate(run)
        case Action.DEACTIVATE:
            run_folder.deactivate(run)
        case Action.REBALANCE:
            run_folder.rebalance(run, request.parallelism, request.partitions)
        case Action.WITHDRAW:
            raise FlowError("a withdrawal is not carried out")
