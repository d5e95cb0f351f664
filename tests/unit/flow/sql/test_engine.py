"""What the engine asks of Spark; a few lines stand for the session."""

from pathlib import Path
from typing import Any

import pytest

from headrace.flow.sql.catalog import Catalog, StreamDefinition
from headrace.flow.sql.engine import Engine
from headrace.flow.sql.source import read_frame
from headrace.flow.sql.statement import EmitMode, SparkQuery

_VIEWS = StreamDefinition(name="views", topic="views", columns=(("page", "STRING", None),))


class Frame:
    """A session, a batch DataFrame, its reader and its writer; keeps the options."""

    isStreaming = False  # noqa: N815 - Spark's name
    columns = ("page",)

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.saved = 0
        self.read = self.readStream = self.write = self.conf = self

    def options(self, **given: str) -> "Frame":
        self.given = given
        return self

    def save(self) -> None:
        self.saved += 1

    def get(self, *_: Any) -> str:
        return "2"

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(Engine, "_make_topic", lambda *_: None)
    return Engine(Frame(), "b:9092", Catalog(None), tmp_path)


def test_values_are_written_once_and_together(engine: Engine) -> None:
    frame = Frame()

    engine._fill(_VIEWS, SparkQuery("VALUES ('a')", 0), EmitMode.NOW, "VALUES ('a')", frame)

    assert frame.saved == 1
    assert frame.given["guarantee"] == "exactly-once"


def test_a_streaming_query_has_a_cap_per_batch() -> None:
    session = Frame()

    client = {"kafka.bootstrap.servers": "b:9092"}
    read_frame(_VIEWS, session, client=client, streaming=True, progress={})

    assert session.given["maxOffsetsPerTrigger"] == "1000000"
