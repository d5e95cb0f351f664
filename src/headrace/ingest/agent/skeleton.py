"""A new component of one's own: its module, a test that passes, and an agent that runs it."""

import keyword
import re
from pathlib import Path
from typing import Final

from headrace.model.error import ConfigError

KINDS: Final = ("source", "sink")
"""The kinds of components that have a skeleton."""
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]*")

_SOURCE = '''\
"""The {name} source."""

from headrace.ingest import EventBatch, PollableSource, Settings, number, text


class {cls}(PollableSource):
    """Delivers numbered greetings: replace this by what you read.

    Derive from `ReplayableSource` instead if you can continue at a position: then the position is
    stored with the events, and they are in a topic exactly once.
    """

    SETTINGS = (
        text("greeting", "What each event says.", "Hello"),
        number("totalEvents", "How many events to deliver.", 10),
        number("batchSize", "Most events in one transaction.", 100, minimum=1),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        """Read the settings. Open nothing here: `headrace agent check` creates components too."""
        super().__init__(name, settings)
        self._greeting = settings.text("greeting")
        self._batch = settings.number("batchSize")
        self._next = 0

    def start(self) -> None:
        """Open files and connections. It may raise: the agent logs that and retries."""

    def stop(self) -> None:
        """Close what `start` opened."""

    def poll(self) -> bool:
        """Read some events and deliver them. Return whether there may be more at once."""
        end = min(self._next + self._batch, self.settings.number("totalEvents"))
        if end == self._next:
            return False
        bodies = [f"{{self._greeting}} {{row}}".encode() for row in range(self._next, end)]
        # It raises while the channel is full. So move on only after it: nothing is lost.
        self.deliver(EventBatch.plain(bodies, {{"origin": "{name}"}}))
        self._next = end
        return True
'''
_SOURCE_TEST = '''\
"""The {name} source, without an agent."""

from {module} import {cls}

from headrace.ingest import EventBatch, Settings


class Recorded({cls}):
    """Keeps its events instead of putting them into channels."""

    def __init__(self, **texts: str) -> None:
        super().__init__("it", Settings.from_texts(self.SETTINGS, texts))
        self.batches: list[EventBatch] = []

    def deliver(self, batch: EventBatch) -> None:
        self.batches.append(batch)


def test_every_event_is_delivered_once() -> None:
    source = Recorded(totalEvents="3", batchSize="2", greeting="Hi")
    source.start()
    while source.poll():
        pass
    source.stop()
    bodies = [body for batch in source.batches for body in batch.bodies]
    assert bodies == [b"Hi 0", b"Hi 1", b"Hi 2"]
    assert source.batches[0].headers[0] == {{"origin": "{name}"}}
'''
_SOURCE_AGENT = """\
# In this folder: headrace agent run --conf agent.conf
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = {module}:{cls}
a1.sources.r1.channels = c1
a1.channels.c1.type = memory
a1.sinks.k1.type = logger
a1.sinks.k1.channel = c1
"""
_SINK = '''\
"""The {name} sink."""

import os
from pathlib import Path

from headrace.ingest import DeliveryFailed, EventBatch, Settings, Sink, number, text


class {cls}(Sink):
    """Appends events to a file, a line each: replace this by where you write to."""

    SETTINGS = (
        text("path", "The file.", "{name}.out"),
        number("batchSize", "Events per batch.", 100, minimum=1),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        """Read the settings. Open nothing here: `headrace agent check` creates components too."""
        super().__init__(name, settings)
        self._path = Path(settings.text("path"))

    def start(self) -> None:
        """Open files and connections. It may raise: the agent logs that and retries."""

    def stop(self) -> None:
        """Close what `start` opened."""

    def deliver(self, batch: EventBatch) -> None:
        """Deliver all events, or raise. They leave the channel when this returns, so return when
        they are safe at their destination; after an error the same events come again."""
        try:
            with self._path.open("ab") as file:
                file.writelines(body + b"\\n" for body in batch.bodies)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DeliveryFailed(f"cannot write to {{self._path}}: {{error}}") from error
'''
_SINK_TEST = '''\
"""The {name} sink, without an agent."""

from pathlib import Path

import pytest
from {module} import {cls}

from headrace.ingest import DeliveryFailed, EventBatch, Settings


def sink(path: Path) -> {cls}:
    return {cls}("it", Settings.from_texts({cls}.SETTINGS, {{"path": str(path)}}))


def test_delivered_events_are_in_the_file(tmp_path: Path) -> None:
    it = sink(tmp_path / "out")
    it.start()
    it.deliver(EventBatch.plain([b"one", b"two"]))
    it.deliver(EventBatch.plain([b"three"]))
    it.stop()
    assert (tmp_path / "out").read_bytes() == b"one\\ntwo\\nthree\\n"


def test_events_stay_in_the_channel_when_the_file_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DeliveryFailed):
        sink(tmp_path / "no folder" / "out").deliver(EventBatch.plain([b"one"]))
'''
_SINK_AGENT = """\
# In this folder: headrace agent run --conf agent.conf
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = seq
a1.sources.r1.totalEvents = 10
a1.sources.r1.channels = c1
a1.channels.c1.type = memory
a1.sinks.k1.type = {module}:{cls}
a1.sinks.k1.channel = c1
"""
_TEMPLATES: Final = {
    "source": (_SOURCE, _SOURCE_TEST, _SOURCE_AGENT),
    "sink": (_SINK, _SINK_TEST, _SINK_AGENT),
}


def write_skeleton(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a component, its test and a configuration into a folder, and return the files.

    Args:
        kind: one of `KINDS`.
        name: "shop-orders" becomes the class ShopOrdersSource in shop_orders_source.py.

    Raises:
        ConfigError: the name cannot be one, or a file exists.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} cannot be a name: write letters, digits, - and _, as in orders"
        )
    words = [word for word in re.split(r"[-_]+", name) if word]
    module = "_".join(word.lower() for word in words) + f"_{kind}"
    texts = {
        "name": name,
        "module": module,
        "cls": "".join(word[0].upper() + word[1:] for word in words) + kind.capitalize(),
    }
    component, test, agent = _TEMPLATES[kind]
    files = {
        folder / f"{module}.py": component,
        folder / f"test_{module}.py": test,
        folder / "agent.conf": agent,
    }
    existing = [path for path in files if path.exists()]
    if existing:
        raise ConfigError(f"{existing[0]} exists: choose another name, or an empty --folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, template in files.items():
        path.write_text(template.format(**texts))
    return list(files)
