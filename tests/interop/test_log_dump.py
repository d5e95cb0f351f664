"""Kafka's dump tool does find damage: silence about our files means something."""

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.log_dump import LogDump, dump_log

pytestmark = pytest.mark.interop

FLIPPED_BYTE, WRONG_INDEX, WRONG_TIME, WRONG_SNAPSHOT = "log", "index", "timeindex", "snapshot"
OTHER_WORDS = {"isvalid: false", "Mismatches in", "timestamp mismatch"}


@pytest.fixture(scope="module")
def damaged(
    kafka_directories: dict[str, Any],
    kafka_tools: KafkaTools,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, LogDump]:
    """Copies of a good partition, each harmed in one file, and what the tool says about them."""
    good = kafka_directories["clean"].partition("rolled")
    work = tmp_path_factory.mktemp("damaged")
    for kind in (FLIPPED_BYTE, WRONG_INDEX, WRONG_TIME, WRONG_SNAPSHOT):
        shutil.copytree(good, work / kind)
        harm(min((work / kind).glob(f"*.{kind}")), kind)
    return work, dump_log(kafka_tools, sorted(work.iterdir()))


def harm(path: Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    if kind == FLIPPED_BYTE:
        data[67] ^= 0xFF
    elif kind == WRONG_INDEX:
        (relative_offset,) = struct.unpack_from(">i", data)
        struct.pack_into(">i", data, 0, relative_offset + 1)
    elif kind == WRONG_TIME:
        struct.pack_into(">q", data, 0, 1)
    else:
        data[2] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (FLIPPED_BYTE, "isvalid: false"),
        (WRONG_INDEX, "Mismatches in"),
        (WRONG_TIME, "timestamp mismatch"),
        (WRONG_SNAPSHOT, "Snapshot"),  # said without the file's name
    ],
)
def test_damage_is_a_complaint(damaged: tuple[Path, LogDump], kind: str, words: str) -> None:
    work, dump = damaged

    complaints = dump.complaints_of(work / kind)

    assert any(words in complaint for complaint in complaints)
    assert not any(other in text for other in OTHER_WORDS - {words} for text in complaints)
