"""`topic export` and `topic import`, on Headrace and Apache Kafka: an import restores an export."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from testkit.peer.stock_consumer import read_topic
from testkit.process.command_line import Finished, run_headrace
from testkit.process.server_process import ServerProcess

PARTITIONS = range(3)
Run = Callable[..., Finished]


@pytest.fixture(params=["broker", "apache_kafka"])
def cluster(request: pytest.FixtureRequest) -> ServerProcess:
    """Headrace, and Apache Kafka."""
    found: ServerProcess = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def run(cluster: ServerProcess) -> Run:
    """A command about this cluster."""
    return lambda *words: run_headrace(*words, environment={"HEADRACE_BROKERS": cluster.address})


@pytest.fixture
def topics(cluster: ServerProcess, topic: str) -> Sequence[str]:
    """A topic with one of everything, and an empty one of the same shape."""
    names = [topic, f"{topic}-copy"]
    settings = ClientSettings.of({"bootstrap.servers": cluster.address})
    with ConnectionPool(settings) as pool:
        made = Admin(pool).create_topics([NewTopic(name, len(PARTITIONS), 1) for name in names])
    assert not any(made.values())
    rows = pa.table(
        {
            "partition": [0, 2, 2, 2, 2],
            "key": pa.array([None, b"", b"k", b"\x00", None], pa.binary()),
            "value": pa.array([b"1", None, b"", b'"2",\n\r', b"caf\xc3\xa9"], pa.binary()),
            "timestamp": [1000, 2000, 3000, 4000, 5000],
            "headers": pa.array(
                [[], [("a", b"\xff"), ("a", None)], [], [("b", b"")], []],
                pa.map_(pa.string(), pa.binary()),
            ),
        }
    )
    with Writer(settings, topic) as writer:
        writer.write(rows)
        with_an_abort = Writer(settings, topic, transactional_id=topic)
        writer.flush()
        with_an_abort.begin()
        with_an_abort.write(pa.table({"partition": [0], "value": ["never"]}))
        with_an_abort.flush()
        with_an_abort.abort()
        with_an_abort.close()
    return names


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("all.parquet", ()),
        ("all.jsonl", ()),
        ("all.csv", ()),
        ("all.csv", ("--key-format", "base64", "--value-format", "base64")),
        ("each/", ("--format", "csv")),
    ],
)
def test_a_topic_comes_back_as_it_was(
    cluster: ServerProcess,
    run: Run,
    topics: Sequence[str],
    tmp_path: Path,
    name: str,
    options: Sequence[str],
) -> None:
    topic, copy = topics
    path = f"{tmp_path}/{name}"

    exported = run("topic", "export", topic, path, *options)
    imported = run("topic", "import", path, copy)

    assert (exported.code, exported.err) == (0, ""), exported
    assert (imported.code, imported.err) == (0, ""), imported
    assert [line.split() for line in exported.lines[1:]] == [
        [topic, "0", "1", "0", "0"],
        [topic, "2", "4", "0", "3"],
    ]
    before = read_topic(cluster.address, topic, PARTITIONS)
    assert read_topic(cluster.address, copy, PARTITIONS) == before
    assert sum(map(len, before.values())) == 5


def test_a_range_is_exported(run: Run, topics: Sequence[str], tmp_path: Path) -> None:
    topic, _ = topics
    path = tmp_path / "some.jsonl"

    by_offset = run("topic", "export", topic, str(path), "--from", "1", "--to", "3", "-p", "2")
    by_time = run("topic", "export", topic, f"{tmp_path}/b.csv", "--from", "@4", "--to", "@999999")

    assert by_offset.lines[1].split() == [topic, "2", "2", "1", "2"]
    assert len(path.read_text().splitlines()) == 2
    assert [line.split() for line in by_time.lines[1:]] == [[topic, "2", "2", "2", "3"]]


@pytest.mark.parametrize("name", ["none.parquet", "none.jsonl", "none.csv"])
def test_an_empty_topic_is_a_file_without_records(
    run: Run, topics: Sequence[str], tmp_path: Path, name: str
) -> None:
    _, copy = topics
    path = tmp_path / name

    exported = run("topic", "export", copy, str(path))
    imported = run("topic", "import", str(path), copy)

    assert (exported.code, imported.code) == (0, 0), (exported, imported)
    assert path.exists()
    assert len(imported.lines) == 1


def test_a_failed_export_leaves_nothing(run: Run, topics: Sequence[str], tmp_path: Path) -> None:
    topic, _ = topics

    ended = run("topic", "export", topic, f"{tmp_path}/a.csv", "--value-format", "json")

    assert ended.code == 1
    assert "is no JSON" in ended.err
    assert not list(tmp_path.iterdir())


def test_a_missing_partition_advises_repartition(
    run: Run, topics: Sequence[str], tmp_path: Path
) -> None:
    _, copy = topics
    path = tmp_path / "far.jsonl"
    path.write_text('{"key": "k", "value": "v", "partition": 9}\n')

    refused = run("topic", "import", str(path), copy)
    placed = run("topic", "import", str(path), copy, "--repartition")

    assert refused.code == 1
    assert "partitions 0 to 2, and no 9; give --repartition" in refused.err
    assert placed.code == 0, placed
    assert placed.lines[1].split()[2] == "1"


def test_mistakes_are_one_sentence(run: Run, topics: Sequence[str], tmp_path: Path) -> None:
    topic, _ = topics
    (tmp_path / "there.csv").write_text("mine\n1\n")

    for words, code, part in [
        (("export", topic, f"{tmp_path}/a.txt"), 2, "give --format parquet, csv or jsonl"),
        (("export", topic, f"{tmp_path}/there.csv"), 2, "--force"),
        (("export", f"{topic}-none", f"{tmp_path}/a.csv"), 1, "no such topic"),
        (("import", f"{tmp_path}/none.csv", topic), 2, "there is no file"),
        (("import", f"{tmp_path}/there.csv", topic), 1, "there is no column value"),
    ]:
        ended = run("topic", *words)
        assert ended.code == code, ended
        assert part in ended.err, ended
    assert (tmp_path / "there.csv").read_text() == "mine\n1\n"
