"""Which records a channel lands, and what is stored of it."""

from dataclasses import replace

import pytest

from headrace.gateway.kinesis.channel.channel_state import (
    ChannelState,
    ChannelStatus,
    RecordFormat,
    ShardRange,
)
from headrace.gateway.kinesis.channel.key_template import (
    DEFAULT_TEMPLATE,
    check_key,
    check_template,
    object_key,
)
from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.stream.reshard_plan import plan_split
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus, new_stream

NAMES = {"channel-name": "one", "channel-id": "1f0c9a7e-1111", "stream-name": "clicks"}
TIME_MS = 1_700_000_000_000  # 2023-11-14 22:13:20


def stream_of(shards: int = 2) -> StreamState:
    return new_stream("clicks", shards, 1_000_000).changed(status=StreamStatus.ACTIVE)


def channel_of(template: str = DEFAULT_TEMPLATE) -> ChannelState:
    return ChannelState(
        name="one",
        id="1f0c9a7e-1111",
        created_ms=2_000_000,
        status=ChannelStatus.CREATING,
        role="arn:aws:iam::000000000000:role/delivery",
        stream="clicks",
        stream_created_ms=1_000_000,
        record_format=RecordFormat.JSON,
        freshness_seconds=300,
        storage={
            "BucketARN": "arn:aws:s3:::lake",
            "ExpectedBucketOwner": "000000000000",
            "CompressionType": "ZSTD",
            "OutputKeyTemplate": template,
        },
        dead_letters={"BucketARN": "arn:aws:s3:::bad", "ErrorOutputPrefix": "errors/"},
    )


def split(stream: StreamState, number: int, end: int) -> StreamState:
    shard = stream.shard(number)
    assert shard is not None
    middle = (shard.keys.start + shard.keys.end) // 2
    planned = plan_split(stream, "000000000000", shard.id, middle, 3_000_000)
    return stream.announced(planned).resharded({number: end}, 3_000_000)


def test_a_channel_is_the_same_after_it_was_stored() -> None:
    channel = channel_of().activated({0: 5, 1: 7}, stream_of().shards).claimed("ab")
    landing = channel.next_landing([ShardRange(0, 5, 9)], TIME_MS)
    channel = replace(channel.begun(landing), tags={"team": "clicks"}, reason="full")

    assert ChannelState.from_json(channel.as_json()) == channel


@pytest.mark.parametrize("broken", [{}, {"status": "ODD"}, {"positions": 7}, {"landing": {}}])
def test_what_is_no_channel_is_refused(broken: dict[str, object]) -> None:
    raw = channel_of().as_json() | broken if broken else {}

    with pytest.raises(ValueError):
        ChannelState.from_json(raw)


def test_open_shards_begin_at_their_end_and_their_children_with_their_first_record() -> None:
    stream = split(stream_of(), 0, end=40)
    channel = channel_of().activated({1: 7, 2: 3, 3: 4}, stream.shards)
    later = split(stream, 2, end=90)

    positions = {each.number: channel.position(each) for each in later.shards}

    assert positions == {0: None, 1: 7, 2: 3, 3: 4, 4: 0, 5: 0}


def test_positions_advance_when_a_landing_is_finished() -> None:
    stream = stream_of()
    channel = channel_of().activated({0: 5, 1: 7}, stream.shards).claimed("ab")
    landing = channel.next_landing([ShardRange(0, 5, 9)], TIME_MS)

    finished = replace(channel.begun(landing), reason="full").finished(stream.shards)

    assert (finished.positions, finished.landed, finished.landing) == ({0: 9, 1: 7}, 1, None)
    assert finished.reason == ""


def test_positions_of_shards_that_are_gone_are_forgotten() -> None:
    stream = stream_of()
    channel = channel_of().activated({0: 5, 1: 7, 9: 3}, stream.shards)
    landing = channel.next_landing([ShardRange(1, 7, 8)], TIME_MS)

    assert channel.begun(landing).finished(stream.shards).positions == {0: 5, 1: 8}


def test_files_lie_in_their_buckets_under_names_that_never_repeat() -> None:
    channel = channel_of("!{stream-name}/!{yyyy}-!{MM}-!{dd}T!{HH}!{mm}!{extension}")

    landing = replace(channel, landed=2, epoch=4).next_landing([], TIME_MS)

    assert landing.path == "lake/clicks/2023-11-14T2213-1f0c9a7e-000000000003.parquet"
    assert landing.error_path == "bad/errors/2023/11/14/22/one-1f0c9a7e-000000000003-errors.parquet"
    assert (landing.number, landing.epoch) == (3, 4)


def test_the_default_template_is_the_services() -> None:
    check_template(DEFAULT_TEMPLATE, NAMES)

    assert object_key(DEFAULT_TEMPLATE, NAMES, TIME_MS, 1) == (
        "kinesis-channel/one/1f0c9a7e-1111/2023/11/14/22/"
        "one-1f0c9a7e-1111-2023-11-14-22-13-1f0c9a7e-000000000001.parquet"
    )


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("!{badvar}/x", "no variable"),
        ("a/../b", "part"),
        ("/a", "part"),
        ("a//b", "part"),
        ("a!{extension}b", "at its end"),
        ("a!b", "no part of a variable"),
        ("!{yyyy", "no part of a variable"),
        ("a" * 250, "too long"),
    ],
)
def test_a_template_that_makes_no_names_of_files_is_refused(template: str, why: str) -> None:
    with pytest.raises(ServiceError, match=why):
        check_template(template, NAMES)


def test_a_longest_name_still_fits() -> None:
    names = {**NAMES, "channel-name": "n" * 128, "channel-id": "i" * 36}

    check_template(DEFAULT_TEMPLATE, names)
    with pytest.raises(ServiceError):
        check_key("a/" * 600 + "b", "ErrorOutputPrefix")
