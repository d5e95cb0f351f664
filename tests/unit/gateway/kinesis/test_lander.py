"""Which gateway lands a channel, and what becomes of one that cannot be landed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.gateway.kinesis.channel.channel_state import (
    ChannelState,
    ChannelStatus,
    RecordFormat,
)
from headrace.gateway.kinesis.landing import lander as lander_module
from headrace.gateway.kinesis.landing.destination import Destination
from headrace.gateway.kinesis.landing.lander import Lander
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.store.instance_watch import InstanceWatch
from headrace.gateway.kinesis.store.lease import lease_clock
from headrace.gateway.kinesis.stream.stream_state import StreamMode, new_stream
from headrace.testing.readiness import wait_until
from testkit.simulation.kinesis_memory import memory_service

OTHER = "ab" * 16


def new_channel(now_ms: int, **changes: Any) -> ChannelState:
    bucket = {"BucketARN": "arn:aws:s3:::lake", "ExpectedBucketOwner": "000000000000"}
    channel = ChannelState(
        name="one",
        id="1f0c9a7e",
        created_ms=now_ms,
        status=ChannelStatus.CREATING,
        role="arn:aws:iam::000000000000:role/delivery",
        stream="clicks",
        stream_created_ms=1_000,
        record_format=RecordFormat.STRING,
        freshness_seconds=1,
        storage={**bucket, "CompressionType": "NONE", "OutputKeyTemplate": "x"},
        dead_letters={**bucket, "ErrorOutputPrefix": "errors/"},
    )
    return replace(channel, **changes)


@pytest.fixture
def service() -> KinesisService:
    service = memory_service(limits=False)
    stream = new_stream("clicks", 4, 1_000, mode=StreamMode.ON_DEMAND)
    service.keeper.change("clicks", lambda _: stream)
    return service


@contextmanager
def landing(service: KinesisService, place: Path | None) -> Iterator[None]:
    lander = Lander(service, None if place is None else Destination(str(place)))
    lander.start()
    try:
        yield
    finally:
        lander.stop()


def create(service: KinesisService, **changes: Any) -> None:
    service.channels.change("one", lambda _: new_channel(service.now_ms(), **changes))


def channel_of(service: KinesisService) -> ChannelState | None:
    return service.channels.channels.get("one")


def wait_for_status(service: KinesisService, status: ChannelStatus) -> ChannelState:
    def found() -> bool:
        channel = channel_of(service)
        return channel is not None and channel.status is status

    wait_until(found, what=f"status {status}", timeout_seconds=60)
    channel = channel_of(service)
    assert channel is not None
    return channel


def test_a_new_channel_becomes_active_and_is_released_at_the_end(
    service: KinesisService, tmp_path: Path
) -> None:
    create(service)

    with landing(service, tmp_path):
        active = wait_for_status(service, ChannelStatus.ACTIVE)

    assert (active.owner, active.epoch) == (service.store.tail.instance, 1)
    assert (active.positions, active.first_new) == ({0: 0, 1: 0, 2: 0, 3: 0}, 4)
    released = channel_of(service)
    assert released is not None and (released.owner, released.epoch) == ("", 1)


def test_a_channel_of_a_silent_gateway_is_taken_over(
    service: KinesisService, tmp_path: Path
) -> None:
    create(service, status=ChannelStatus.ACTIVE, owner=OTHER, epoch=7)
    began = lease_clock() - lander_module._SILENT_SECONDS
    service.store.instances = InstanceWatch(began)  # type: ignore[attr-defined]

    with landing(service, tmp_path):
        wait_until(
            lambda: (channel_of(service) or new_channel(0)).epoch == 8,
            what="the new owner",
            timeout_seconds=60,
        )


def test_a_channel_of_a_live_gateway_is_left_to_it(service: KinesisService, tmp_path: Path) -> None:
    create(service, status=ChannelStatus.ACTIVE, owner=OTHER, epoch=7)
    watch = InstanceWatch(lease_clock() - 1000)
    service.store.instances = watch  # type: ignore[attr-defined]
    watch.hear(bytes.fromhex(OTHER) + b"\0" * 8, lease_clock())
    create_two = new_channel(service.now_ms(), name="two", id="2")
    service.channels.change("two", lambda _: create_two)

    with landing(service, tmp_path):
        # The lander has looked at all channels when the other one is active.
        wait_until(
            lambda: service.channels.channels["two"].status is ChannelStatus.ACTIVE,
            what="the other channel",
            timeout_seconds=60,
        )

    channel = channel_of(service)
    assert channel is not None and (channel.owner, channel.epoch) == (OTHER, 7)


def test_a_deleted_channel_without_an_owner_ends_at_any_gateway(service: KinesisService) -> None:
    create(service, status=ChannelStatus.DELETING)

    with landing(service, None):
        wait_until(lambda: channel_of(service) is None, what="its end", timeout_seconds=60)


def test_a_channel_that_cannot_begin_fails_after_a_minute(
    service: KinesisService, tmp_path: Path
) -> None:
    place = tmp_path / "file"
    place.write_text("no folder")
    create(service, created_ms=service.now_ms() - 61_000)

    with landing(service, place):
        failed = wait_for_status(service, ChannelStatus.FAILED)

    assert "not delivered" in failed.reason and str(place) in failed.reason


def test_a_gateway_without_a_place_creates_nothing(service: KinesisService) -> None:
    create(service)
    lander = Lander(service, None)

    lander._look()
    lander.stop()

    channel = channel_of(service)
    assert channel is not None and channel.status is ChannelStatus.CREATING


def test_instances_are_heard_by_their_leases() -> None:
    watch = InstanceWatch(10.0)
    one = bytes(range(16))

    assert watch.silence(one.hex(), 13.0) == 3.0
    watch.hear(one + b"12345678", 12.5)
    assert watch.silence(one.hex(), 13.0) == 0.5
    assert watch.silence("no hex", 13.0) == 3.0
