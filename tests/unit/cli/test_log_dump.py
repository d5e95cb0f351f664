"""Dumps of a log's files, intact and damaged ones."""

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.log.filesystem import Disk
from headrace.log.producer.producer_entry import BatchMetadata, ProducerEntry
from headrace.log.producer.producer_snapshot import write_snapshot
from headrace.records.control import ControlType, build_marker
from headrace.records.encode import encode
from testkit.process.command_line import Finished, run_headrace

TIME_MS = 1_700_000_000_000
BASE = 1000


def name(suffix: str) -> str:
    return f"{BASE:020d}{suffix}"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Three batches, the last one a marker, and everything that lies beside them."""
    folder = tmp_path / "clicks-0"
    folder.mkdir()
    rows = pa.table(
        {
            "key": ["a", None],
            "value": pa.array([b"one", b"\xff"]),
            "headers": pa.array([[("h", b"v")], []], pa.map_(pa.string(), pa.binary())),
        }
    )
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 5}
    plain = encode(rows, timestamp_ms=TIME_MS, base_offset=BASE, leader_epoch=2).data
    packed = encode(
        rows,
        timestamp_ms=TIME_MS,
        base_offset=BASE + 2,
        codec="zstd",
        transactional=True,
        **producer,
    ).data
    marker = build_marker(
        ControlType.COMMIT,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=3,
        timestamp_ms=TIME_MS,
        base_offset=BASE + 4,
    )
    (folder / name(".log")).write_bytes(plain + packed + marker)
    (folder / name(".index")).write_bytes(struct.pack(">iiii", 1, 0, 3, 98) + bytes(80))
    (folder / name(".timeindex")).write_bytes(struct.pack(">qi", TIME_MS, 1))
    (folder / name(".txnindex")).write_bytes(struct.pack(">hqqqq", 0, 7, 1002, 1004, 1005))
    batches = [BatchMetadata(5, 6, 1003, 1, TIME_MS)]
    write_snapshot(
        Disk(), folder / name(".snapshot"), [ProducerEntry(7, 0, 3, TIME_MS, -1, batches)]
    )
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n2 1000\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n")
    return folder


def dump(*arguments: str | Path) -> Finished:
    return run_headrace("log", "dump", *map(str, arguments))


def entries(*arguments: str | Path) -> list[dict[str, Any]]:
    ended = dump(*arguments, "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.lines]


def test_batches_are_listed_with_their_heads(partition: Path) -> None:
    first, second, third = entries(partition / name(".log"))
    assert (first["position"], first["base_offset"], first["last_offset"]) == (0, 1000, 1001)
    assert (first["count"], first["leader_epoch"], first["producer_id"]) == (2, 2, -1)
    assert second["position"] == first["size_bytes"]
    assert (second["codec"], second["transactional"], second["base_sequence"]) == ("zstd", True, 5)
    assert (third["control"], third["base_offset"]) == ("COMMIT", 1004)


def test_records_are_shown_on_request(partition: Path) -> None:
    first, second, third = entries(partition / name(".log"), "--records")
    assert first["records"] == [
        {
            "offset": 1000,
            "timestamp": TIME_MS,
            "key": "a",
            "value": "one",
            "headers": [{"key": "h", "value": "v"}],
        },
        {
            "offset": 1001,
            "timestamp": TIME_MS,
            "key": None,
            "value_base64": "/w==",
            "headers": [],
        },
    ]
    assert [record["offset"] for record in second["records"]] == [1002, 1003]
    assert third["records"] == [
        {"offset": 1004, "timestamp": TIME_MS, "control": "COMMIT", "coordinator_epoch": 3}
    ]


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        (
            ".index",
            [
                {"position": 0, "offset": 1001, "log_position": 0},
                {"position": 8, "offset": 1003, "log_position": 98},
            ],
        ),
        (".timeindex", [{"position": 0, "timestamp": TIME_MS, "offset": 1001}]),
        (
            ".txnindex",
            [
                {
                    "position": 0,
                    "producer_id": 7,
                    "first_offset": 1002,
                    "last_offset": 1004,
                    "last_stable_offset": 1005,
                }
            ],
        ),
        (
            ".snapshot",
            [
                {
                    "snapshot_offset": 1000,
                    "producer_id": 7,
                    "producer_epoch": 0,
                    "last_sequence": 6,
                    "last_offset": 1003,
                    "last_timestamp": TIME_MS,
                    "coordinator_epoch": 3,
                    "transaction_first_offset": -1,
                }
            ],
        ),
    ],
)
def test_what_lies_beside_a_log_is_shown(
    partition: Path, suffix: str, expected: list[dict[str, Any]]
) -> None:
    file = str(partition / name(suffix))
    assert entries(file) == [{"file": file, **entry} for entry in expected]


def test_a_directory_is_shown_file_by_file(partition: Path) -> None:
    ended = dump(partition)
    assert ended.code == 0
    files = [Path(line).name for line in ended.lines if not line.startswith(" ")]
    assert files == [
        name(".index"),
        name(".log"),
        name(".snapshot"),
        name(".timeindex"),
        name(".txnindex"),
        "leader-epoch-checkpoint",
    ]
    assert "  epoch 2  start_offset 1000" in ended.lines


def test_a_data_directory_is_shown_partition_by_partition(partition: Path) -> None:
    assert dump(partition.parent).out == dump(partition).out


def test_text_cannot_write_to_the_terminal(partition: Path) -> None:
    rows = pa.table({"value": ["\x1b[2J\nnew line"]})
    data = encode(rows, timestamp_ms=TIME_MS, base_offset=BASE).data
    (partition / name(".log")).write_bytes(data)
    ended = dump(partition / name(".log"), "--records")
    assert r"\u001b[2J\nnew line" in ended.out
    assert "\x1b" not in ended.out


@pytest.mark.parametrize(
    ("suffix", "position", "sentence"),
    [
        (".log", 70, "is damaged at byte 0: The batch (base offset 1000) has CRC32C"),
        (".index", 8, "is damaged at byte 8: the entry"),
        (".txnindex", 0, "is damaged at byte 0: version"),
        (".snapshot", 12, "the CRC is"),
    ],
)
def test_damage_is_reported_with_its_position_and_the_others_are_shown(
    partition: Path, suffix: str, position: int, sentence: str
) -> None:
    file = partition / name(suffix)
    data = bytearray(file.read_bytes())
    data[position] ^= 0xFF
    file.write_bytes(data)

    ended = dump(partition)

    assert ended.code == 1
    assert str(file) in ended.err
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert "  epoch 2  start_offset 1000" in ended.lines


def test_a_torn_tail_is_reported_after_the_whole_batches(partition: Path) -> None:
    file = partition / name(".log")
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:50])

    ended = dump(file)

    assert ended.code == 1
    assert len(ended.lines) == 1 + 3
    assert f"is damaged at byte {len(whole)}" in ended.err


def test_an_index_with_part_of_an_entry_is_reported(partition: Path) -> None:
    (partition / name(".timeindex")).write_bytes(struct.pack(">qi", TIME_MS, 1) + b"xyz")
    ended = dump(partition / name(".timeindex"))
    assert ended.code == 1
    assert "is damaged at byte 12: 3 bytes are no whole entry of 12" in ended.err


def test_what_is_no_log_is_wrong_usage(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    assert dump(other).code == 2
    assert "is no part of a log" in dump(other).err
    assert "there is no file or directory" in dump(tmp_path / "gone").err
    assert "holds no segments" in dump(tmp_path).err
