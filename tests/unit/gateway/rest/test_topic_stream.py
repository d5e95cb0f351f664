"""Streams of events: where they go on, and which records they show."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.settings import ClientSettings
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.json_document import write_json
from headrace.gateway.rest.stream.record_filter import RecordFilter, shown
from headrace.gateway.rest.stream.topic_stream import (
    MOST_STREAMS_OF_USER,
    StreamRequest,
    TopicStream,
    TopicStreams,
    parse_positions,
)


@given(st.dictionaries(st.integers(0, 199), st.integers(0, 2**59), max_size=20))
def test_positions_come_back(positions: dict[int, int]) -> None:
    text = ",".join(f"{index}:{offset}" for index, offset in positions.items())

    assert parse_positions(text) == positions


@pytest.mark.parametrize("text", ["x", "0", "0:", ":1", "0:-1", "0:1;1:2", "٣:1", "0:" + "9" * 30])
def test_other_positions_are_refused(text: str) -> None:
    with pytest.raises(RestError):
        parse_positions(text)


@given(st.text(max_size=300))
def test_any_text_is_positions_or_refused(text: str) -> None:
    try:
        parse_positions(text)
    except RestError as error:
        assert error.status == 400


def test_a_filter_takes_keys_and_parts_of_values() -> None:
    wanted = RecordFilter(key=b"k", contains=b"b")

    assert wanted.accepts(b"k", b"abc")
    assert not wanted.accepts(b"kk", b"abc")
    assert not wanted.accepts(b"k", b"a")
    assert not wanted.accepts(b"k", None)
    assert RecordFilter().accepts(None, None)


@given(st.none() | st.binary())
def test_whatever_is_in_a_record_can_be_shown(data: bytes | None) -> None:
    kind, value = shown(data)

    assert kind in ("JSON", "STRING", "BINARY")
    write_json(value)


def test_a_user_has_a_quarter_of_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicStream, "open", lambda _: None)

    def wish(owner: str) -> StreamRequest:
        return StreamRequest("t", False, None, {}, RecordFilter(), owner)

    async def run() -> None:
        streams = TopicStreams(ClientSettings.of({}))
        opened = [await streams.open(wish("ann")) for _ in range(MOST_STREAMS_OF_USER)]
        with pytest.raises(RestError, match="at most 64 streams") as refusal:
            await streams.open(wish("ann"))
        assert refusal.value.status == 429
        opened.append(await streams.open(wish("bob")))
        await streams.close(opened.pop(0))
        opened.append(await streams.open(wish("ann")))
        opened += [await streams.open(wish("")) for _ in range(MOST_STREAMS_OF_USER + 1)]
        for each in opened:
            await streams.close(each)
        assert not streams._counts
        streams.stop()

    asyncio.run(run())
