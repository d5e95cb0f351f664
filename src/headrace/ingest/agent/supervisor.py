"""Runs the agent of a configuration file, and applies changes of the file."""

import hashlib
import os
from collections.abc import Collection
from pathlib import Path
from threading import Event as Signal

import structlog

from headrace.config.properties import read_properties
from headrace.ingest.agent.agent import Agent
from headrace.ingest.agent.assembly import Assembly, assemble
from headrace.ingest.channel import Channel
from headrace.ingest.channels.memory import MemoryChannel
from headrace.ingest.config.plan import Severity
from headrace.ingest.config.reader import plan_agent
from headrace.ingest.source import ReplayableSource
from headrace.model.error import ConfigError, HeadraceError

_log = structlog.get_logger(__name__)
DEFAULT_POLL_SECONDS = 30.0
_DRAIN_SECONDS = 10.0


class AgentSupervisor:
    """Starts an agent, and replaces it when its file changes.

    Rule 1: at the start, components that cannot be used are left out with an error, as in Flume.
    Rule 2: later, a file with an error, or with a channel that cannot start, changes nothing: the
        old configuration runs on.
    Rule 3: a channel whose settings did not change stays, with its events (but see rule 4). A
        channel that is removed is emptied first; if its sinks cannot empty it, the change waits.
    Rule 4: no change waits for the memory channel of an exactly-once source that goes on: the new
        configuration has it too, reading the same, with the same ledger. What its sink has not
        committed is dropped with it, and the source, which begins after the committed events,
        delivers it again. So such a source runs on until a change is certain: started again before
        a channel that still has its events, it would deliver them twice.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._seen = b""
        self.agent: Agent | None = None

    def start(self) -> Agent:
        """Start the agent of the file.

        Raises:
            ConfigError: nothing in the file can run.
        """
        self._seen = self._digest()
        assembly = self._assemble({})
        for problem in assembly.problems:
            log = _log.error if problem.severity is Severity.ERROR else _log.warning
            log(
                "configuration_problem",
                file=str(self._path),
                line=problem.line,
                reason=problem.message,
            )
        if not assembly.channels or not (assembly.sources or assembly.sinks):
            raise ConfigError(
                f"nothing in {self._path} can run as agent {self._name}: headrace agent check "
                f"{self._path} says why"
            )
        self.agent = Agent(assembly)
        self.agent.start()
        return self.agent

    def run(self, stopping: Signal, poll_seconds: float, reload: bool = True) -> None:
        """Apply changes of the file until `stopping` is set, and then stop the agent."""
        while not stopping.wait(poll_seconds):
            if reload:
                self.apply_changes()
        if self.agent is not None:
            self.agent.stop()

    def apply_changes(self) -> bool:
        """Apply the file if it has changed. Return whether the agent was replaced."""
        try:
            digest = self._digest()
        except OSError as error:
            _log.error("configuration_unreadable", file=str(self._path), reason=str(error))
            return False
        if digest == self._seen:
            return False
        assert self.agent is not None
        old = self.agent.assembly
        try:
            keep = self._kept(old)
            new = self._assemble(keep)
        except ConfigError as error:
            self._seen = digest
            _log.error("configuration_refused", file=str(self._path), reason=str(error))
            return False
        if new.errors:
            self._seen = digest
            for problem in new.errors:
                _log.error("configuration_refused", line=problem.line, reason=problem.message)
            return False
        if not self._swap(self.agent, new):
            return False
        self._seen = digest
        _log.info("configuration_applied", file=str(self._path))
        return True

    def _swap(self, agent: Agent, new: Assembly) -> bool:
        old = agent.assembly
        once = {
            name: channel
            for name, channel in _exactly_once(old).items()
            if _goes_on(old, new, name)
        }
        agent.stop_sources(without=once)
        left = [
            name
            for name in agent.drain(_DRAIN_SECONDS, without=once.values())
            if new.channels.get(name) is not old.channels[name]
        ]
        if left:
            _log.error("configuration_waits", channels=left, reason="sinks do not empty them")
            self._resume(agent, left)
            return False
        agent.stop_sources()
        agent.drain(_DRAIN_SECONDS)
        agent.stop_sinks()
        for name in once.values():
            _drop_events(old.channels[name])
        kept = [each for name, each in old.channels.items() if new.channels.get(name) is each]
        agent.stop_channels(each for each in old.channels.values() if each not in kept)
        successor = Agent(new)
        try:
            successor.start(kept)
        except (HeadraceError, OSError) as error:
            _log.error("configuration_refused", file=str(self._path), reason=str(error))
            successor.stop_channels(each for each in new.channels.values() if each not in kept)
            agent.start(kept)
            self._seen = self._digest()  # no retry before the file changes again
            return False
        self.agent = successor
        return True

    def _resume(self, agent: Agent, left: Collection[str]) -> None:
        """Start the sources again that were stopped to empty channels. An exactly-once source
        begins after the committed events, so its channel must have none of the others."""
        repeated = [each for each in _exactly_once(agent.assembly).values() if each in left]
        if repeated:
            agent.stop_sinks()
            for name in repeated:
                _drop_events(agent.assembly.channels[name])
            agent.start_sinks()
        agent.start_sources()

    def _kept(self, old: Assembly) -> dict[str, Channel]:
        """Return the channels that the file describes with unchanged settings, without those of
        rule 4."""
        dropped = _exactly_once(old).values()
        plan, _ = plan_agent(read_properties(self._path, os.environ), self._name)
        return {
            name: old.channels[name]
            for name, channel in plan.channels.items()
            if name in old.channels
            and name not in dropped
            and channel.same_as(old.plan.channels[name])
        }

    def _assemble(self, keep: dict[str, Channel]) -> Assembly:
        plan, problems = plan_agent(read_properties(self._path, os.environ), self._name)
        assembly = assemble(plan, keep)
        assembly.problems = sorted([*problems, *assembly.problems], key=lambda each: each.line)
        return assembly

    def _digest(self) -> bytes:
        return hashlib.sha256(self._path.read_bytes()).digest()


def _exactly_once(assembly: Assembly) -> dict[str, str]:
    """Return the exactly-once sources whose events wait in memory, each with its channel. A Kafka
    channel commits events when they are put into it."""
    return {
        name: channel
        for name, source in assembly.sources.items()
        if isinstance(source, ReplayableSource) and source.ledger is not None
        for channel in assembly.plan.sources[name].channels
        if not assembly.channels[channel].DURABLE
    }


def _goes_on(old: Assembly, new: Assembly, name: str) -> bool:
    """Return whether the new configuration has an exactly-once source that delivers again what one
    of the old has not committed: it reads the same, and stores its positions at the same place."""
    before, after = old.sources[name], new.sources.get(name)
    assert isinstance(before, ReplayableSource) and before.ledger is not None
    if not isinstance(after, ReplayableSource) or after.ledger is None:
        return False
    reads = [each.plan.sources[name].component.without(before.BATCH_SETTING) for each in (old, new)]
    return reads[0].same_as(reads[1]) and before.ledger.identity == after.ledger.identity


def _drop_events(channel: Channel) -> None:
    """Drop what the stopped sink of an exactly-once source has not committed."""
    assert isinstance(channel, MemoryChannel), "an exactly-once source has no other channel"
    if channel.size:
        _log.info("uncommitted_events_dropped", channel=channel.name, count=channel.size)
    channel.clear()
