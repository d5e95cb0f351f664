"""The threads of an agent: one per source, and one per sink or group of sinks."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Event as Signal
from threading import Thread

import structlog

from headrace.ingest.backoff import Backoff
from headrace.ingest.component import Component
from headrace.ingest.sink import Status
from headrace.ingest.sink_processor import SinkProcessor
from headrace.ingest.source import PollableSource, Source
from headrace.model.error import HeadraceError

_log = structlog.get_logger(__name__)
_JOIN_SECONDS = 30.0
# A source without events is polled again after this pause, which then doubles.
_IDLE_FIRST_SECONDS = 0.01
_IDLE_LONGEST_SECONDS = 0.5


class Runner(ABC):
    """Starts components, with retries, works until `request_stop`, and stops them.

    Rule 1: an exception of a component is logged and followed by a pause that grows; it never ends
        the thread.
    Rule 2: an unexpected exception is logged with its traceback; one with a clear message
        (`HeadraceError`, `OSError`) in one line.
    """

    def __init__(self, name: str, parts: Sequence[Component]) -> None:
        self.name = name
        self.stopping = Signal()
        self.ready = Signal()
        self._parts = parts
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def request_stop(self) -> None:
        self.stopping.set()

    def join(self) -> None:
        if self._thread.ident is None:
            return
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            _log.error("component_does_not_stop", name=self.name)

    def _run(self) -> None:
        started = [part for part in self._parts if self._start_part(part)]
        try:
            self.ready.set()
            if not self.stopping.is_set():
                self._work()
        finally:
            for part in started:
                part.counters.stopped()
                try:
                    part.stop()
                except Exception as error:  # noqa: BLE001 - the other components must stop too
                    _log_failure("stop_failed", part.name, error)

    def _start_part(self, part: Component) -> bool:
        backoff = Backoff()
        while not self.stopping.is_set():
            try:
                part.start()
                part.counters.started()
                return True
            except Exception as error:  # noqa: BLE001 - rule 1
                _log_failure("start_failed", part.name, error)
            self.stopping.wait(backoff.next_seconds())
        return False

    @abstractmethod
    def _work(self) -> None: ...


class SourceRunner(Runner):
    """Polls a pollable source; a source with threads of its own is only started and stopped."""

    def __init__(self, source: Source) -> None:
        super().__init__(f"source {source.name}", [source])
        self._source = source
        source.stopping = self.stopping

    def _work(self) -> None:
        source = self._source
        if not isinstance(source, PollableSource):
            self.stopping.wait()
            return
        idle = Backoff(_IDLE_FIRST_SECONDS, _IDLE_LONGEST_SECONDS)
        failing = Backoff()
        while not self.stopping.is_set():
            try:
                more = source.poll()
            except Exception as error:  # noqa: BLE001 - rule 1
                _log_failure("source_failed", source.name, error)
                self.stopping.wait(failing.next_seconds())
                continue
            failing.reset()
            if more:
                idle.reset()
            else:
                self.stopping.wait(idle.next_seconds())


class SinkRunner(Runner):
    """Calls the processor of a sink or a group again and again."""

    def __init__(self, processor: SinkProcessor) -> None:
        super().__init__(f"sink {processor.name}", [*processor.sinks, processor])
        self._processor = processor
        for sink in processor.sinks:
            sink.stopping = self.stopping

    def request_stop(self) -> None:
        super().request_stop()
        for sink in self._processor.sinks:
            sink.channel.interrupt()

    def _work(self) -> None:
        failing = Backoff()
        idle = Backoff(_IDLE_FIRST_SECONDS, _IDLE_LONGEST_SECONDS)
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                status = self._processor.process()
            except Exception as error:  # noqa: BLE001 - rule 1
                _log_failure("sink_failed", self._processor.name, error)
                self.stopping.wait(failing.next_seconds())
                continue
            if status is Status.READY:
                failing.reset()
                idle.reset()
            elif time.monotonic() - began < _IDLE_FIRST_SECONDS:
                # A channel with a keep-alive of 0 does not wait for events, so the runner does.
                self.stopping.wait(idle.next_seconds())


def _log_failure(event: str, name: str, error: Exception) -> None:
    cause = error.__cause__
    reason = str(error) if cause is None else f"{error} ({cause})"
    if isinstance(error, HeadraceError | OSError):
        _log.error(event, component=name, reason=reason)
    else:
        _log.error(event, component=name, reason=repr(error), exc_info=error)
