"""Operations that the service allows some times per day."""

from typing import Any

import pytest

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.operation.capacity import update_stream_mode
from headrace.gateway.kinesis.operation.shard import update_shard_count
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.stream.daily_limit import DAY_MS
from headrace.gateway.kinesis.stream.stream_state import new_stream
from testkit.simulation.kinesis_memory import memory_service


def service_of(
    monkeypatch: pytest.MonkeyPatch, now_ms: list[int], **options: Any
) -> KinesisService:
    service = memory_service(**options)
    service.store.change("clicks", lambda _: new_stream("clicks", 2, 0))
    monkeypatch.setattr(service, "now_ms", lambda: now_ms[0])
    return service


def scale(service: KinesisService, target: int) -> None:
    update_shard_count(service, {"StreamName": "clicks", "TargetShardCount": target})


def switch(service: KinesisService, mode: str) -> None:
    request = {"StreamARN": service.account.stream_arn("clicks")}
    update_stream_mode(service, {**request, "StreamModeDetails": {"StreamMode": mode}})


def test_a_stream_is_scaled_ten_times_per_day(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = [10 * DAY_MS]
    service = service_of(monkeypatch, now_ms)
    for at in range(10):
        scale(service, 1 + at % 2)
        scale(service, 1 + at % 2)  # it is so already: nothing is used up
        now_ms[0] += 1000

    with pytest.raises(ServiceError, match="LimitExceededException: UpdateShardCount can be used"):
        scale(service, 1)
    assert len(service.store.streams["clicks"].open_shards) == 2

    now_ms[0] = 11 * DAY_MS  # the first one is a day old
    scale(service, 1)
    with pytest.raises(ServiceError, match="LimitExceededException"):
        scale(service, 2)


def test_the_mode_changes_twice_per_day(monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(monkeypatch, [10 * DAY_MS])
    switch(service, "ON_DEMAND")
    switch(service, "PROVISIONED")

    with pytest.raises(ServiceError, match="LimitExceededException"):
        switch(service, "ON_DEMAND")


def test_without_limits_there_is_none_per_day(monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(monkeypatch, [10 * DAY_MS], limits=False)
    for at in range(12):
        scale(service, 1 + at % 2)

    assert service.store.streams["clicks"].uses == {}
