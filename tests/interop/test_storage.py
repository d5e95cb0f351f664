"""The hdfs sink against a real HDFS and a server that speaks S3."""

from collections.abc import Iterator
from importlib.util import find_spec

import pyarrow.fs
import pyarrow.parquet
import pytest

from headrace.ingest.event import EventBatch
from headrace.ingest.sink import Sink
from headrace.ingest.source import PollableSource
from headrace.storage.storage_folder import open_folder
from testkit.peer.mini_hdfs import MiniHdfs
from testkit.peer.peer import PeerMissing, require_peer
from testkit.sample.ingest_agent import make, source_alone


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A bucket, as a URI that `{}` is the place for a path in."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError:
        require_peer("moto is not installed: pip install 'headrace[dev]'")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "any-user")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        where = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        uri = f"s3://events/{{}}?{where}&allow_bucket_creation=true"
        storage = open_folder(uri.format(""))
        storage.filesystem.create_dir("events")
        yield uri
    server.stop()


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if find_spec("hdfs_native") is None:
        require_peer("hdfs-native is not installed: pip install 'headrace[dev]'")
    try:
        with MiniHdfs(tmp_path_factory.mktemp("hdfs")) as running:
            yield f"hdfs://{running.address}/events/{{}}"
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture(params=["s3", "hdfs"])
def place(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


def deliver(texts: dict[str, str], *batches: EventBatch) -> None:
    sink = make("sink", "hdfs", {"hdfs.rollCount": "0", "hdfs.rollSize": "0", **texts})
    assert isinstance(sink, Sink)
    sink.start()
    try:
        for batch in batches:
            sink.deliver(batch)
    finally:
        sink.stop()


def files(uri: str) -> dict[str, bytes]:
    """What lies below a URI, by path from there."""
    storage = open_folder(uri)
    selector = pyarrow.fs.FileSelector(storage.root, recursive=True)
    return {
        info.path.removeprefix(storage.root).lstrip("/"): storage.filesystem.open_input_stream(
            info.path
        ).read()
        for info in storage.filesystem.get_file_info(selector)
        if info.type is pyarrow.fs.FileType.File
    }


def test_events_go_into_buckets_by_header(place: str) -> None:
    batch = EventBatch([b"one", b"two", b"three"], [{"kind": "a"}, {"kind": "b"}, {"kind": "a"}])
    deliver({"hdfs.path": place.format("text/%{kind}"), "hdfs.fileType": "DataStream"}, batch)
    found = files(place.format("text"))
    assert sorted((path.split("/")[0], data) for path, data in found.items()) == [
        ("a", b"one\nthree\n"),
        ("b", b"two\n"),
    ]
    assert not any(path.endswith(".tmp") for path in found)


def test_what_was_delivered_is_there_though_nobody_closed_the_sink(place: str) -> None:
    sink = make("sink", "hdfs", {"hdfs.path": place.format("crash"), "hdfs.fileType": "DataStream"})
    assert isinstance(sink, Sink)
    sink.deliver(EventBatch.plain([b"safe"]))
    assert list(files(place.format("crash")).values()) == [b"safe\n"]


def test_parquet(place: str) -> None:
    deliver(
        {"hdfs.path": place.format("parquet"), "hdfs.fileType": "Parquet"},
        EventBatch.plain([b"body"], {"host": "web1"}),
    )
    (data,) = files(place.format("parquet")).values()
    table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
    assert table.to_pylist() == [{"headers": [("host", "web1")], "body": b"body"}]


def test_the_files_source_reads_and_moves_files(
    place: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    storage = open_folder(place.format("landing"))
    storage.filesystem.create_dir(storage.root, recursive=True)
    table = pyarrow.table({"id": [1, 2, 3]})
    pyarrow.parquet.write_table(
        table, storage.path("a.parquet"), filesystem=storage.filesystem, row_group_size=2
    )
    texts = {
        "path": place.format("landing"),
        "minAge": "0",
        "pollDelay": "0",
        "batchSize": "2",
        "afterRead": "move",
        "moveTo": "done",
        "positionFile": str(tmp_path_factory.mktemp("files") / "journal.jsonl"),
    }
    for expected in ([b'{"id": 1}', b'{"id": 2}', b'{"id": 3}'], []):
        with source_alone("files", texts) as (source, got):
            assert isinstance(source, PollableSource)
            while source.poll():
                pass
        assert got.bodies == expected
    assert storage.has("done/a.parquet")
    assert not storage.has("a.parquet")
