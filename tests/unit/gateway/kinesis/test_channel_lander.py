"""Records of a stream lie in files exactly once, whatever fails in between."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.fs
import pyarrow.parquet
import pytest

from headrace.gateway.kinesis.channel.channel_state import ChannelState, ChannelStatus
from headrace.gateway.kinesis.error import ServiceError, internal_failure
from headrace.gateway.kinesis.landing.channel_lander import ChannelLander, Superseded
from headrace.gateway.kinesis.landing.destination import Destination
from headrace.gateway.kinesis.operation.table import OPERATIONS
from headrace.gateway.kinesis.record.shard_reader import ReadRows
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.stream.reshard_plan import plan_split
from headrace.gateway.kinesis.stream.stream_state import StreamMode, new_stream
from headrace.storage.storage_folder import StorageFolder
from testkit.simulation.kinesis_memory import MemoryStore, memory_service

ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/clicks"
BUCKET = {"BucketARN": "arn:aws:s3:::lake", "ExpectedBucketOwner": "000000000000"}


class World:
    """A stream of four shards with a channel, and the gateways that land it."""

    def __init__(self, folder: Path, record_format: str = "STRING") -> None:
        self.folder = folder
        self.service: KinesisService = memory_service(limits=False, channels_to=str(folder))
        self.destination = Destination(str(folder))
        stream = new_stream("clicks", 4, 1_000, mode=StreamMode.ON_DEMAND)
        self.service.keeper.change("clicks", lambda _: stream)
        source = {
            "StreamARN": ARN,
            "RecordConfiguration": {"RecordFormatType": record_format},
        }
        self.call(
            "CreateChannel",
            ChannelName="one",
            ServiceExecutionRoleARN="arn:aws:iam::000000000000:role/delivery",
            StreamConfigurationList=[source],
            S3DestinationConfiguration={
                "DataFreshnessInSeconds": 1,
                "StorageConfiguration": {**BUCKET, "CompressionType": "GZIP"},
            },
        )
        self.put("before", at=0)
        positions = {number: 0 for number in range(4)} | {0: 1}
        self.change(lambda now: now.activated(positions, stream.shards))
        self.now_ms = 10_000
        self.service.now_ms = lambda: self.now_ms  # type: ignore[method-assign]

    def call(self, operation: str, **request: Any) -> Any:
        return OPERATIONS[operation](self.service, request)

    def put(self, data: str, at: int = 0) -> None:
        key = str(at * 2**126)
        steps = self.call(
            "PutRecord",
            StreamName="clicks",
            Data=data.encode(),
            PartitionKey="k",
            ExplicitHashKey=key,
        )
        for _ in steps:
            pass

    def split(self, shard: str) -> None:
        """As the scaler does: SplitShard itself is for provisioned streams."""
        self.service.keeper.change(
            "clicks",
            lambda now: now and now.announced(plan_split(now, "000000000000", shard, 17, 2_000)),
        )

    def change(self, change: Callable[[ChannelState], ChannelState]) -> ChannelState:
        changed = self.service.channels.change("one", lambda now: now and change(now))
        assert changed is not None
        return changed

    @property
    def channel(self) -> ChannelState:
        return self.service.channels.channels["one"]

    def gateway(self, instance: str = "aa") -> ChannelLander:
        """Let a gateway take the channel over."""
        self.service.store.instance = instance  # type: ignore[attr-defined]
        claimed = self.change(lambda now: now.claimed(instance))
        return ChannelLander(self.service, self.destination, claimed, lambda: 1 << 20)

    def age(self) -> None:
        """Let what was put become old enough for a file."""
        self.now_ms = 2**42

    def files(self, under: str = "lake/kinesis-channel") -> list[Path]:
        return sorted(self.folder.joinpath(under).rglob("*.parquet"))

    def landed(self, column: str = "data", under: str = "lake/kinesis-channel") -> list[Any]:
        return [
            value
            for file in self.files(under)
            for value in pyarrow.parquet.read_table(file)[column].to_pylist()
        ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_records_lie_in_one_file_with_what_the_service_tells_of_them(world: World) -> None:
    gateway = world.gateway()
    world.put("one", at=0)
    world.put("two", at=3)

    assert gateway.step() == 0.0
    assert world.files() == []  # not old enough
    world.age()
    gateway.step()

    [file] = world.files()
    table = pyarrow.parquet.read_table(file)
    assert table["data"].to_pylist() == ["one", "two"]
    assert table["shardId"].to_pylist() == ["shardId-000000000000", "shardId-000000000003"]
    assert table["partitionKey"].to_pylist() == ["k", "k"]
    assert table["streamName"].to_pylist() == ["clicks", "clicks"]
    shard = world.service.store.streams["clicks"].shards[0]
    row = world.service.reader.partitions  # type: ignore[attr-defined]
    times = [rows[-1].time_ms for rows in row.values() if rows[-1].value == b"one"]
    assert table["sequenceNumber"][0].as_py() == shard.sequence_number(1, times[0])
    arrived = table["approximateArrivalTimestamp"][0].as_py()
    assert int(arrived.timestamp() * 1000) == times[0]
    assert (world.channel.positions, world.channel.landed) == ({0: 2, 1: 0, 2: 0, 3: 1}, 1)
    assert table.schema.metadata[b"headrace.offsets"] == (
        b'{"shardId-000000000000": [1, 2], "shardId-000000000003": [0, 1]}'
    )


def test_the_next_file_goes_on_where_the_last_one_ended(world: World) -> None:
    gateway = world.gateway()
    world.age()
    for text in ("one", "two", "three"):
        world.put(text)
        gateway.step()
        gateway.step()

    assert sorted(world.landed()) == ["one", "three", "two"]
    assert len(world.files()) == 3


def test_records_are_landed_through_a_reshard(world: World) -> None:
    gateway = world.gateway()
    world.put("parent")
    world.split("shardId-000000000000")
    world.put("child")
    world.age()
    gateway.step()
    gateway.step()

    assert sorted(world.landed()) == ["child", "parent"]
    assert sorted(set(world.landed("shardId"))) == [
        "shardId-000000000000",
        "shardId-000000000004",
    ]


@pytest.mark.parametrize("moment", ["begun", "written", "finished"])
def test_a_gateway_that_dies_loses_and_doubles_nothing(
    world: World, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.gateway("aa")
    for at in range(4):
        world.put(f"record {at}", at)
    world.age()

    class Died(Exception):
        pass

    def die(*_: Any, **figures: float) -> None:
        raise Died

    with monkeypatch.context() as patch:
        if moment == "begun":
            patch.setattr(Destination, "write", die)
        if moment == "written":
            patch.setattr(ChannelState, "finished", die)
        if moment == "finished":
            patch.setattr(world.service.delivery, "count", die)
        with pytest.raises(Died):
            first.step()
    world.put("later")
    second = world.gateway("bb")
    for _ in range(3):
        second.step()

    assert sorted(world.landed()) == ["later", *(f"record {at}" for at in range(4))]
    assert not list(world.folder.rglob("*.tmp"))


def test_a_former_owner_that_wakes_up_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was suspended before it wrote; the next owner has written, and gone on."""
    first = world.gateway("aa")
    world.put("one")
    world.age()
    write = Destination.write
    held: list[Callable[[], None]] = []
    with monkeypatch.context() as patch:

        def hold(*arguments: Any) -> None:
            held.append(lambda: write(*arguments))
            raise OSError("suspended")

        patch.setattr(Destination, "write", hold)
        with pytest.raises(OSError, match="suspended"):
            first.step()
    second = world.gateway("bb")
    second.step()
    world.put("two")
    second.step()

    [late] = held
    late()
    with pytest.raises(Superseded):
        first.step()

    assert world.landed() == ["one", "two"]
    assert world.channel.owner == "bb"


def test_a_leader_that_shows_less_for_a_moment_shortens_no_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new leader does not know at once how far its predecessor's high watermark was."""
    first = world.gateway("aa")
    for at in range(4):
        world.put(f"record {at}", at)
    world.age()
    with monkeypatch.context() as patch:
        patch.setattr(Destination, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            first.step()
    second = world.gateway("bb")
    with monkeypatch.context() as patch:
        reader = world.service.reader
        patch.setattr(reader, "read", lambda _, offset, *__, **___: ReadRows([], offset, offset))
        with pytest.raises(ServiceError, match="does not show"):
            second.step()
    assert world.files() == [] and world.channel.landing is not None

    second.step()

    assert sorted(world.landed()) == [f"record {at}" for at in range(4)]


def test_what_the_retention_takes_from_a_landing_does_not_stop_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.gateway("aa")
    for text in ("one", "two"):
        world.put(text)
    world.age()
    with monkeypatch.context() as patch:
        patch.setattr(Destination, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            first.step()
    second = world.gateway("bb")
    read = world.service.reader.read
    log_start = 2
    with monkeypatch.context() as patch:
        patch.setattr(
            world.service.reader,
            "read",
            lambda partition, offset, *rest, **more: read(
                partition, max(log_start, offset), *rest, **more
            ),
        )
        second.step()

    assert world.landed() == ["two"] and world.channel.positions[0] == 3


def test_a_partial_file_of_a_dead_gateway_is_removed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.gateway("aa")
    first = world.gateway("aa")
    world.put("one")
    world.age()
    with monkeypatch.context() as patch:
        # Killed while it wrote: no clean-up.
        patch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            first.step()
    assert len(list(world.folder.rglob(".*.2.tmp"))) == 1

    world.gateway("bb").step()

    assert not list(world.folder.rglob("*.tmp")) and world.landed() == ["one"]


def test_a_full_disk_is_retried_and_reading_stops_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = world.gateway()
    world.put("one")
    world.age()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Destination, "write", full)
        for text in ("two", "three"):
            with pytest.raises(OSError, match="No space left"):
                gateway.step()
            world.put(text)
    for _ in range(2):
        gateway.step()

    assert sorted(world.landed()) == ["one", "three", "two"]
    assert [pyarrow.parquet.read_table(each).num_rows for each in world.files()] == [1, 2]


@pytest.mark.parametrize("number", [1, 2])
def test_a_commit_whose_outcome_is_not_known_doubles_nothing(
    world: World, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is committed, but the answer says that the cluster does not answer."""
    gateway = world.gateway()
    world.put("one")
    world.age()
    change = world.service.channels.change
    calls: list[int] = []

    def uncertain(*arguments: Any) -> ChannelState | None:
        changed = change(*arguments)
        calls.append(1)
        if len(calls) == number:
            raise internal_failure("The cluster does not answer.")
        return changed

    with monkeypatch.context() as patch:
        patch.setattr(world.service.channels, "change", uncertain)
        with pytest.raises(ServiceError):
            gateway.step()
    world.put("two")
    for _ in range(3):
        gateway.step()

    assert sorted(world.landed()) == ["one", "two"]


def test_a_commit_that_fails_again_and_again_writes_no_file_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = world.gateway()
    world.put("one")
    world.age()
    taken: list[str] = []
    with monkeypatch.context() as patch:

        def fail(*_: Any) -> None:
            raise internal_failure("The cluster does not answer.")

        patch.setattr(ChannelState, "finished", fail)
        for _ in range(3):
            with pytest.raises(ServiceError):
                gateway.step()
            taken += world.landed()
            for file in world.files():
                file.unlink()
    world.put("two")
    for _ in range(3):
        gateway.step()

    assert taken + world.landed() == ["one", "two"]


def test_an_owner_that_is_cut_off_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has begun a file; the next owner has written it, and a reader has taken it away."""
    first = world.gateway("aa")
    world.put("one")
    world.age()
    with monkeypatch.context() as patch:
        patch.setattr(Destination, "write", lambda *_: (_ for _ in ()).throw(OSError("slow")))
        with pytest.raises(OSError, match="slow"):
            first.step()
    monkeypatch.setattr(MemoryStore, "confirmed_at", property(lambda _: float("-inf")))
    monkeypatch.setattr(MemoryStore, "refresh", lambda *_: False)
    for _ in range(2):
        with pytest.raises(ServiceError, match="cannot be confirmed"):
            first.step()
    assert world.files() == []

    def hear(*_: Any) -> bool:
        """Confirm the view: it has another owner."""
        world.service.store.instance = "bb"  # type: ignore[attr-defined]
        world.change(lambda now: now.claimed("bb"))
        return True

    monkeypatch.setattr(MemoryStore, "refresh", hear)
    with pytest.raises(Superseded):
        first.step()
    assert world.files() == []


def test_a_file_that_has_its_name_is_left_as_it_is(tmp_path: Path) -> None:
    destination = Destination(str(tmp_path))
    for content in (b"first", b"second"):
        destination.write("lake/a/one", pyarrow.py_buffer(content), 2)

    assert tmp_path.joinpath("lake/a/one").read_bytes() == b"first"


def test_a_name_that_is_taken_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDFS renames no file over another one."""

    local = pyarrow.fs.LocalFileSystem()

    class NoOverwriting:
        type_name = "hdfs"

        def __getattr__(self, name: str) -> Any:
            return getattr(local, name)

        def move(self, _: str, final: str) -> None:
            Path(final).write_bytes(b"the other owner's")
            raise FileExistsError(final)

    files: Any = NoOverwriting()
    monkeypatch.setattr(
        "headrace.gateway.kinesis.landing.destination.open_folder",
        lambda place: StorageFolder(files, place),
    )

    Destination(str(tmp_path)).write("lake/one", pyarrow.py_buffer(b"own"), 2)

    assert [each.name for each in tmp_path.joinpath("lake").iterdir()] == ["one"]


def test_a_full_buffer_makes_a_file_before_it_is_old(world: World) -> None:
    gateway = world.gateway()
    for at in range(8):
        world.put("x" * 300_000, at % 4)
    for _ in range(4):
        gateway.step()

    assert world.files() and all(len(each) == 300_000 for each in world.landed())
    world.age()
    for _ in range(4):
        gateway.step()
    assert len(world.landed()) == 8


@pytest.mark.parametrize(
    ("record_format", "landed", "dead"),
    [
        ("JSON", ['{"a": 1}'], {b"{": "no JSON", b"NaN": "no JSON", b"\xff": "no UTF-8"}),
        ("STRING", ["NaN", "{", '{"a": 1}'], {b"\xff": "no UTF-8"}),
        ("BYTE_ARRAY", [b"NaN", b"\xff", b"{", b'{"a": 1}'], {}),
    ],
)
def test_records_of_another_format_are_dead_letters(
    tmp_path: Path, record_format: str, landed: list[Any], dead: dict[bytes, str]
) -> None:
    world = World(tmp_path, record_format)
    gateway = world.gateway()
    log = world.service.reader.partitions  # type: ignore[attr-defined]
    for data in (b'{"a": 1}', b"{", b"NaN", b"\xff"):
        world.put("x")
        [rows] = [each for each in log.values() if each]
        rows[-1] = rows[-1]._replace(value=data)
    world.age()
    gateway.step()

    errors = "lake/kinesis-channel-errors"
    assert sorted(world.landed()) == sorted(landed)
    assert set(world.landed("data", errors)) == set(dead)
    found = zip(world.landed("data", errors), world.landed("errorMessage", errors), strict=True)
    assert all(why.startswith(dead[data]) for data, why in found)


def test_a_number_of_any_length_is_json(tmp_path: Path) -> None:
    world = World(tmp_path, "JSON")
    gateway = world.gateway()
    texts = [f'{{"n": {"7" * 5000}}}', f"[-{'1' * 5000}.5e9]"]
    for text in texts:
        world.put(text)
    world.age()
    gateway.step()

    assert world.landed() == texts


def test_dead_letters_in_the_folder_of_the_records_replace_none(tmp_path: Path) -> None:
    world = World(tmp_path, "JSON")
    template = "clicks/!{yyyy}/!{MM}/!{dd}/!{HH}/!{channel-name}"
    world.change(
        lambda now: replace(
            now,
            storage={**now.storage, "OutputKeyTemplate": template},
            dead_letters={**now.dead_letters, "ErrorOutputPrefix": "clicks/"},
        )
    )
    gateway = world.gateway()
    world.put('{"a": 1}')
    world.put("no JSON")
    world.age()
    gateway.step()

    records, dead_letters = sorted(world.files("lake"), key=lambda each: len(each.name))
    assert records.parent == dead_letters.parent
    assert sorted(map(str, world.landed(under="lake"))) == ["b'no JSON'", '{"a": 1}']


def test_a_deleted_channel_is_not_landed(world: World) -> None:
    gateway = world.gateway()
    world.put("one")
    world.age()
    world.call("DeleteChannel", ChannelARN=ARN.replace("stream/clicks", "channel/one"))

    with pytest.raises(Superseded):
        gateway.step()
    assert world.files() == []


def test_an_update_becomes_active(world: World) -> None:
    gateway = world.gateway()
    arn = ARN.replace("stream/clicks", "channel/one")
    world.call(
        "UpdateChannel",
        ChannelARN=arn,
        S3DestinationConfiguration={"DataFreshnessInSeconds": 2},
    )

    gateway.step()

    assert (world.channel.status, world.channel.freshness_seconds) == (ChannelStatus.ACTIVE, 2)
