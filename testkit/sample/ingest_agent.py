"""Agents for tests: made from the text of a configuration, with a sink that keeps its events."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import fastavro

from headrace.config.properties import parse_properties
from headrace.ingest.agent.agent import Agent
from headrace.ingest.agent.assembly import Assembly, assemble
from headrace.ingest.agent.component_type import find_component
from headrace.ingest.channel import Channel
from headrace.ingest.channel_processor import ChannelProcessor
from headrace.ingest.component import Component
from headrace.ingest.config.reader import plan_agent
from headrace.ingest.error import ChannelError, DeliveryFailed
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.selectors.replicating import ReplicatingSelector
from headrace.ingest.settings import Settings, flag
from headrace.ingest.sink import Sink
from headrace.ingest.source import Source


def make(kind: str, type_name: str, texts: Mapping[str, str], *wiring: object) -> Component:
    """Create one component by its type, as for a configuration."""
    component = find_component(kind, type_name)
    return component("it", Settings.from_texts(component.SETTINGS, texts), *wiring)


def assemble_text(text: str, name: str = "a1") -> Assembly:
    """Create the components of a configuration, and collect its mistakes."""
    plan, problems = plan_agent(parse_properties(text, {}), name)
    assembly = assemble(plan)
    assembly.problems = sorted([*problems, *assembly.problems], key=lambda each: each.line)
    return assembly


@contextmanager
def running(text: str, name: str = "a1") -> Iterator[Agent]:
    """Run an agent inside the block; a configuration with errors fails the test."""
    assembly = assemble_text(text, name)
    assert not assembly.errors, assembly.errors
    agent = Agent(assembly)
    agent.start()
    try:
        assert agent.wait_ready(90), "the agent did not start"
        yield agent
    finally:
        agent.stop(drain_seconds=60)


class CollectingSink(Sink):
    """Keeps its events. `type = testkit.sample.ingest_agent:CollectingSink`.

    Attributes:
        failing: every delivery fails while it is set. The setting `failing` sets it before the
            agent starts.
    """

    SETTINGS = (flag("failing", "Fail every delivery at first.", False),)

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self.batches: list[EventBatch] = []
        self.failing = settings.flag("failing")

    def deliver(self, batch: EventBatch) -> None:
        if self.failing:
            raise DeliveryFailed(f"sink {self.name} fails on purpose")
        self.batches.append(batch)

    @property
    def events(self) -> list[Event]:
        return [event for batch in list(self.batches) for event in batch]

    @property
    def bodies(self) -> list[bytes]:
        return [body for batch in list(self.batches) for body in batch.bodies]


class RecordingProcessor(ChannelProcessor):
    """Replaces the channels of a source: keeps its batches, and refuses the next `refusals`."""

    def __init__(self) -> None:
        selector = ReplicatingSelector(
            "it", Settings.from_texts(ReplicatingSelector.SETTINGS, {}), {}
        )
        super().__init__("it", (), selector)
        self.batches: list[EventBatch] = []
        self.refusals = 0
        self._lock = Lock()

    @property
    def transaction_capacity(self) -> int:
        return 1_000_000

    @property
    def bodies(self) -> list[bytes]:
        return [body for batch in list(self.batches) for body in batch.bodies]

    @property
    def events(self) -> list[Event]:
        return [event for batch in list(self.batches) for event in batch]

    def _parts(self, batch: EventBatch) -> list:  # type: ignore[type-arg]
        with self._lock:
            if self.refusals:
                self.refusals -= 1
                raise ChannelError("refused on purpose")
            self.batches.append(batch)
        return []

    def process_with_retries(self, batch: EventBatch, stopping: object) -> bool:
        self._parts(batch)
        return True


@contextmanager
def source_alone(
    type_name: str, texts: Mapping[str, str]
) -> Iterator[tuple[Source, RecordingProcessor]]:
    """Start a source without an agent, and yield it with its batches. It is not polled."""
    source = make("source", type_name, texts)
    assert isinstance(source, Source)
    processor = RecordingProcessor()
    source.processor = processor
    source.start()
    try:
        yield source, processor
    finally:
        source.stopping.set()
        source.stop()


def memory_channel(**texts: str) -> Channel:
    """Return a memory channel that does not wait."""
    channel = make("channel", "memory", {"keep-alive": "0", **texts})
    assert isinstance(channel, Channel)
    return channel


def run_sink(type_name: str, texts: Mapping[str, str], *batches: EventBatch) -> None:
    """Start a sink, deliver the batches to it, and stop it."""
    sink = make("sink", type_name, texts)
    assert isinstance(sink, Sink)
    sink.start()
    try:
        for batch in batches:
            sink.deliver(batch)
    finally:
        sink.stop()


def file_contents(folder: Path) -> dict[str, bytes]:
    """Return what each file below a folder holds, by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def avro_events(data: bytes) -> list[Event]:
    """Return the events of an Avro file."""
    return [Event(row["headers"], row["body"]) for row in fastavro.reader(io.BytesIO(data))]
