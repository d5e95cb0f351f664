"""The singer source with a real tap in a process of its own."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.ingest.error import IngestError
from headrace.ingest.source import PollableSource
from headrace.model.error import ConfigError
from testkit.sample import singer_program
from testkit.sample.ingest_agent import RecordingProcessor, make, source_alone


class Tap:
    """A tap with its configuration, and where the source stores its position."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.marker = str(folder / "misbehaved")

    @contextmanager
    def source(
        self, config: dict[str, Any], **texts: str
    ) -> Iterator[tuple[PollableSource, RecordingProcessor]]:
        path = self._folder / "config.json"
        path.write_text(json.dumps(config))
        settings = {
            "command": f"{sys.executable} {singer_program.__file__} tap",
            "config": str(path),
            "positionFile": str(self._folder / "position.json"),
            "runInterval": "0",
            **texts,
        }
        with source_alone("singer", settings) as (source, got):
            assert isinstance(source, PollableSource)
            yield source, got

    @property
    def position(self) -> Any:
        path = self._folder / "position.json"
        return json.loads(path.read_text())["value"] if path.exists() else None


@pytest.fixture
def tap(tmp_path: Path) -> Tap:
    return Tap(tmp_path)


def poll_until(source: PollableSource, done: Callable[[], bool]) -> list[str]:
    """Poll, also over errors, and return those."""
    errors: list[str] = []
    while not done():
        try:
            source.poll()
        except IngestError as error:
            errors.append(str(error))
            assert len(errors) < 20, errors
    return errors


def ids(got: RecordingProcessor) -> list[int]:
    return [json.loads(body)["id"] for body in got.bodies]


def test_records_become_events_with_key_and_stream(tap: Tap) -> None:
    with tap.source({"rows": 1}, topicPrefix="shop.", schemaHeader="true") as (source, got):
        poll_until(source, lambda: tap.position == [{"next": 1}, 0, ""])
    (event,) = got.events
    assert json.loads(event.body) == {"id": 0, "name": "ä"}
    schema = json.loads(event.headers.pop("singer.schema"))
    assert schema["schema"]["properties"] == {"id": {"type": "integer"}}
    assert event.headers == {
        "stream": "orders",
        "key": "0",
        "time_extracted": "2026-01-02T03:04:05Z",
        "version": "7",
        "topic": "shop.orders",
    }


def test_the_next_run_begins_at_the_last_state(tap: Tap) -> None:
    with tap.source({"rows": 25}) as (source, got):
        poll_until(source, lambda: tap.position == [{"next": 25}, 0, ""])
    assert ids(got) == list(range(25))
    with tap.source({"rows": 27}) as (source, got):
        poll_until(source, lambda: tap.position == [{"next": 27}, 0, ""])
    assert ids(got) == [25, 26]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("die_at", r"ended with exit code 3; its last lines: the tap begins \| out of luck"),
        ("garbage_at", "a line is no JSON: 'not a message'"),
    ],
)
def test_a_tap_that_fails_goes_on_behind_the_last_record(tap: Tap, what: str, message: str) -> None:
    config = {"rows": 40, what: 35, "state_every": 10, "marker": tap.marker}
    with tap.source(config, batchSize="7") as (source, got):
        errors = poll_until(source, lambda: tap.position == [{"next": 40}, 0, ""])
    (error,) = errors
    assert re.search(message, error)
    assert ids(got) == list(range(40))


def test_a_tap_that_hangs_is_ended(tap: Tap) -> None:
    with (
        tap.source({"rows": 2, "hang_at": 1}, timeout="300") as (source, _),
        pytest.raises(IngestError, match=r"wrote nothing for 0\.3 s"),
    ):
        poll_until_raises(source)


def test_a_tap_with_other_records_repeats_those_after_the_state(tap: Tap) -> None:
    config = {"rows": 20, "die_at": 15, "state_every": 10, "marker": tap.marker, "shuffled": True}
    with tap.source(config, batchSize="1") as (source, got):
        errors = poll_until(source, lambda: tap.position == [{"next": 20}, 0, ""])
    assert any("did not repeat the" in error for error in errors)
    assert ids(got)[:10] == list(range(10))
    assert set(ids(got)) == set(range(20))
    assert len(ids(got)) > 20


def test_a_tap_without_states_delivers_everything_in_every_run(tap: Tap) -> None:
    config = {"rows": 5, "state_every": 1000, "state_at_end": False}
    with tap.source(config) as (source, got):
        poll_until(source, lambda: len(got.bodies) >= 10)
    assert ids(got)[:10] == [0, 1, 2, 3, 4] * 2


def test_events_that_a_channel_refused_are_kept(tap: Tap) -> None:
    with tap.source({"rows": 3}) as (source, got):
        got.refusals = 2
        errors = poll_until(source, lambda: tap.position == [{"next": 3}, 0, ""])
    assert errors == ["refused on purpose"] * 2
    assert ids(got) == [0, 1, 2]


def test_bad_lines_can_be_skipped(tap: Tap) -> None:
    with tap.source({"rows": 3, "garbage_at": 1}, skipBadLines="true") as (source, got):
        assert poll_until(source, lambda: tap.position == [{"next": 3}, 0, ""]) == []
    assert ids(got) == [0, 1, 2]


def test_a_line_that_is_too_long_ends_the_tap(tap: Tap) -> None:
    with (
        tap.source({"rows": 1}, maxLineLength="20") as (source, _),
        pytest.raises(IngestError, match="maxLineLength"),
    ):
        poll_until_raises(source)


def test_a_program_that_is_not_there_is_named(tap: Tap) -> None:
    with (
        tap.source({}, command="no-such-tap") as (source, _),
        pytest.raises(OSError, match="no-such-tap"),
    ):
        source.poll()


def test_the_state_of_the_tap_has_a_file_of_its_own(tap: Tap, tmp_path: Path) -> None:
    position = tmp_path / "orders.state"
    with tap.source({"rows": 25}, positionFile=str(position)) as (source, _):
        poll_until(source, (tmp_path / "orders.state.tap-state").exists)
    assert "key" in json.loads(position.read_text())
    assert (tmp_path / "orders.state.tap-state").stat().st_mode & 0o777 == 0o600


def test_a_position_of_another_catalog_is_not_used(tap: Tap, tmp_path: Path) -> None:
    with tap.source({"rows": 3}) as (source, got):
        poll_until(source, lambda: tap.position == [{"next": 3}, 0, ""])
    catalog = tmp_path / "catalog.json"
    catalog.write_text("{}")
    with tap.source({"rows": 3}, catalog=str(catalog)) as (source, got):
        poll_until(source, lambda: len(got.bodies) >= 3)
    assert ids(got) == [0, 1, 2]


def poll_until_raises(source: PollableSource) -> None:
    while True:
        source.poll()


def test_a_stop_ends_the_tap(tap: Tap) -> None:
    with tap.source({"rows": 2, "hang_at": 1}) as (source, got):
        poll_until(source, lambda: len(got.bodies) == 1)
        process = source._tap._process  # type: ignore[attr-defined]
    assert process.poll() is not None


def test_a_command_that_cannot_be_split_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="cannot be split"):
        make("source", "singer", {"command": "tap 'x"})
