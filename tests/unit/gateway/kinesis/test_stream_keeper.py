"""Changes are finished once they can be, and a reshard that cannot be finished is undone."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.admin.admin import ConfigEntry
from headrace.client.error import BrokerError
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.store import stream_keeper
from headrace.gateway.kinesis.store.stream_keeper import StreamKeeper, settle, topic_configs
from headrace.gateway.kinesis.stream.reshard_plan import plan_split
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus, new_stream
from headrace.gateway.kinesis.stream_cipher import StreamCiphers
from headrace.testing.readiness import wait_until
from headrace.wire.error_code import ErrorCode

SETTINGS = ClientSettings.of({})
FIRST = "shardId-000000000000"


class FakeTail:
    def wake(self) -> None: ...

    def wait(self, seconds: float) -> None: ...


class FakeStore:
    """Streams of one instance that no one else changes."""

    def __init__(self, *streams: StreamState) -> None:
        self.streams = {each.name: each for each in streams}
        self.tail = FakeTail()

    def change(self, name: str, step: Any) -> StreamState | None:
        changed: StreamState | None = step(self.streams.get(name))
        if changed is None:
            self.streams.pop(name, None)
        else:
            self.streams[name] = changed
        return changed


def active() -> StreamState:
    return new_stream("clicks", 1, 1_000).changed(status=StreamStatus.ACTIVE)


def splitting(stream: StreamState) -> StreamState:
    return stream.announced(plan_split(stream, "0", FIRST, 2**127, 5_000))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(stream_keeper, "lease_clock", lambda: now[0])
    return now


@pytest.fixture
def keeper_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made: list[StreamKeeper] = []

    def make(store: FakeStore) -> StreamKeeper:
        made.append(StreamKeeper(SETTINGS, store))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each._workers.shutdown()


def look(keeper: StreamKeeper) -> None:
    """Look once, and wait for what that begins."""
    keeper._look()
    wait_until(lambda: not keeper._busy, what="the keeper")


def test_a_reshard_that_cannot_be_finished_is_undone(
    keeper_of: Any, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []

    def refused(*_: Any) -> None:
        tries.append(clock[0])
        raise BrokerError(ErrorCode.policy_violation)

    monkeypatch.setattr(stream_keeper, "settle", refused)
    store = FakeStore(active())
    keeper = keeper_of(store)
    keeper.change("clicks", splitting)

    while not store.streams["clicks"].is_settled:
        look(keeper)
        clock[0] += 0.5
        assert clock[0] < 300, "retried for ever"

    assert store.streams["clicks"].pending is None
    assert store.streams["clicks"].shards == active().shards
    assert 3 < len(tries) < 10, "less and less often"


def test_tags_that_are_set_meanwhile_do_not_put_off_a_reshard(
    keeper_of: Any, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[float] = []
    monkeypatch.setattr(stream_keeper, "settle", lambda *_: settled.append(clock[0]))
    store = FakeStore(active())
    keeper = keeper_of(store)
    keeper.change("clicks", splitting)
    began = clock[0]

    while not settled:
        look(keeper)
        store.change("clicks", lambda stream: stream.changed(tags={"at": str(clock[0])}))
        clock[0] += 0.25
        assert clock[0] < began + 3, "put off by tags"

    assert settled[0] >= began + stream_keeper.CLOSING_SECONDS


def test_a_stream_is_active_again_when_no_instance_can_write_plain_records(
    keeper_of: Any, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[float] = []
    monkeypatch.setattr(stream_keeper, "settle", lambda *_: settled.append(clock[0]))
    ciphers = StreamCiphers({"alias/one": b"1" * 32})
    keeper = keeper_of(FakeStore(active()))
    keeper.change("clicks", lambda stream: ciphers.started(stream, "alias/one", 2_000))
    began = clock[0]

    while not settled:
        look(keeper)
        clock[0] += 0.25
        assert clock[0] < began + 3

    assert settled[0] >= began + stream_keeper.CLOSING_SECONDS


def test_tags_that_are_set_while_a_reshard_is_finished_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = splitting(active())
    store = FakeStore(before.changed(tags={"team": "blue"}))
    finish = lambda *_: lambda known: known.resharded({0: 7}, 9_000)  # noqa: E731
    monkeypatch.setattr(stream_keeper, "_reshard", finish)

    settle(None, store, before)  # type: ignore[arg-type]

    done = store.streams["clicks"]
    assert done.is_settled and done.tags == {"team": "blue"} and len(done.open_shards) == 2


class FakeAdmin:
    """A cluster in which a topic of the stream's name exists already."""

    def __init__(self, configs: dict[str, str]) -> None:
        self.configs = configs
        self.deleted: list[Any] = []

    def __call__(self, _pool: Any) -> "FakeAdmin":
        return self

    def create_topics(self, _new: Any) -> dict[str, Any]:
        return {"clicks": BrokerError(ErrorCode.topic_already_exists)}

    def describe_configs(self, _kind: Any, _names: Any) -> dict[str, Any]:
        entries = [
            ConfigEntry(name, value, None, False, False)  # type: ignore[arg-type]
            for name, value in self.configs.items()
        ]
        return {"clicks": entries}

    def delete_topics(self, names: list[str]) -> dict[str, None]:
        self.deleted += names
        return dict.fromkeys(names)


class FakePool:
    class _Topic:
        topic_id = None
        error = None
        partitions = (0,)

    def metadata(self, _names: Any) -> Any:
        class Found:
            topics = {"clicks": FakePool._Topic}  # noqa: RUF012

        return Found


@pytest.mark.parametrize("foreign", [True, False])
def test_a_topic_that_a_kafka_client_made_meanwhile_is_not_taken(
    foreign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = new_stream("clicks", 1, 1_000)
    configs = topic_configs(stream) | ({"message.timestamp.type": "CreateTime"} if foreign else {})
    monkeypatch.setattr(stream_keeper, "Admin", FakeAdmin(configs | {"segment.ms": "1"}))
    store = FakeStore(stream)

    settle(FakePool(), store, stream)  # type: ignore[arg-type]

    assert ("clicks" in store.streams) is not foreign


@pytest.mark.parametrize("foreign", [True, False])
def test_a_stream_that_never_was_active_deletes_only_its_own_topic(
    foreign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = new_stream("clicks", 1, 1_000).changed(status=StreamStatus.DELETING)
    admin = FakeAdmin({} if foreign else topic_configs(stream))
    monkeypatch.setattr(stream_keeper, "Admin", admin)
    store = FakeStore(stream)

    settle(FakePool(), store, stream)  # type: ignore[arg-type]

    assert admin.deleted == ([] if foreign else ["clicks"])
    assert store.streams == {}


def test_the_keeper_goes_on_after_an_unexpected_error(
    keeper_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = keeper_of(FakeStore())
    looks: list[int] = []

    def fails_once() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise ValueError("unexpected")
        keeper._stopping = True

    monkeypatch.setattr(keeper, "_look", fails_once)

    keeper._run()

    assert len(looks) == 2
