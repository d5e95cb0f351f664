"""Starts and stops an agent: channels, sinks, sources; and in the opposite order."""

import time
from collections.abc import Collection, Iterable

import structlog

from headrace.ingest.agent.assembly import Assembly
from headrace.ingest.agent.runner import Runner, SinkRunner, SourceRunner
from headrace.ingest.channel import Channel
from headrace.model.error import HeadraceError

_log = structlog.get_logger(__name__)
_DRAIN_POLL_SECONDS = 0.02
# `drain` gives up when no event has left the channels for this long.
_STALLED_SECONDS = 2.0


class Agent:
    """Runs an `Assembly`.

    Threads: one per source and per sink or group of sinks, see `runner`. One thread calls the
    methods here.

    Example:
        agent = Agent(assemble(plan))
        agent.start()
        ...
        agent.stop()
    """

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self._sinks: list[Runner] = []
        self._sources: dict[str, Runner] = {}

    def start(self, running: Iterable[Channel] = ()) -> None:
        """Start everything. Sources and sinks that fail to start are retried in their threads; a
        channel that fails is an error, because no event is safe without it.

        Args:
            running: channels of an earlier configuration that stay in use.
        """
        kept = list(running)
        for channel in self.assembly.channels.values():
            channel.start()
            if channel not in kept:
                channel.counters.started()
        self.start_sinks()
        self.start_sources()
        _log.info(
            "agent_started",
            agent=self.assembly.name,
            sources=list(self.assembly.sources),
            channels=list(self.assembly.channels),
            sinks=list(self.assembly.sinks),
        )

    def start_sinks(self) -> None:
        self._sinks = [SinkRunner(each) for each in self.assembly.processors.values()]
        for runner in self._sinks:
            runner.start()

    def start_sources(self) -> None:
        """Start the sources that do not run."""
        for name, source in self.assembly.sources.items():
            if name not in self._sources:
                self._sources[name] = SourceRunner(source)
                self._sources[name].start()

    def wait_ready(self, seconds: float = 30.0) -> bool:
        """Wait until every source and sink has started; return False if some have not in time."""
        deadline = time.monotonic() + seconds
        return all(
            runner.ready.wait(max(0.0, deadline - time.monotonic()))
            for runner in (*self._sinks, *self._sources.values())
        )

    def stop(self, drain_seconds: float = 10.0) -> None:
        """Stop the sources, then the sinks, then the channels. The sinks first deliver the events
        of memory channels, as long as that makes progress."""
        self.stop_sources()
        left = self.drain(drain_seconds)
        self.stop_sinks()
        for name in left:
            channel = self.assembly.channels[name]
            _log.error("events_lost", channel=name, count=channel.size, reason="not durable")
        self.stop_channels(self.assembly.channels.values())
        _log.info("agent_stopped", agent=self.assembly.name)

    def stop_sources(self, without: Collection[str] = ()) -> None:
        """Stop the sources, but for those of these names."""
        names = [name for name in self._sources if name not in without]
        _stop([self._sources[name] for name in names])
        for name in names:
            del self._sources[name]

    def stop_sinks(self) -> None:
        _stop(self._sinks)
        self._sinks = []

    def stop_channels(self, channels: Iterable[Channel]) -> None:
        for channel in channels:
            try:
                channel.stop()
            except (HeadraceError, OSError) as error:
                _log.error("stop_failed", component=channel.name, reason=str(error))
            channel.counters.stopped()

    def drain(self, seconds: float, without: Collection[str] = ()) -> list[str]:
        """Wait until the channels that are not durable are empty; return those that are not.

        It gives up early when no event has left them for a while: their sinks are down.

        Args:
            without: the names of channels that need not be empty.
        """
        deadline = time.monotonic() + seconds
        sizes: dict[str, int] = {}
        moved_at = time.monotonic()
        while True:
            before, sizes = sizes, self._volatile_sizes(without)
            now = time.monotonic()
            if sizes != before:
                moved_at = now
            if not sizes or now >= deadline or now - moved_at > _STALLED_SECONDS:
                return list(sizes)
            time.sleep(_DRAIN_POLL_SECONDS)

    def _volatile_sizes(self, without: Collection[str]) -> dict[str, int]:
        drained = {sink.channel.name for sink in self.assembly.sinks.values()}
        return {
            name: channel.size
            for name, channel in self.assembly.channels.items()
            if not channel.DURABLE and channel.size and name in drained and name not in without
        }


def _stop(runners: list[Runner]) -> None:
    for runner in runners:
        runner.request_stop()
    for runner in runners:
        runner.join()
