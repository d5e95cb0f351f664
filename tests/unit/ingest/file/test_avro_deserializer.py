"""Avro files with schemas and values that would end the process or fill its memory."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.ingest.error import IngestError
from headrace.ingest.file.avro_deserializer import AvroDeserializer

NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"], "default": None}],
}
EMPTY = {"type": "record", "name": "Empty", "fields": []}
SYNC = bytes(16)


def long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def chain(length: int) -> bytes:
    """Return a node with so many nodes in it."""
    return b"\2" * length + b"\0"


def write(path: Path, schema: Any, *blocks: tuple[int, bytes]) -> Path:
    """Write a file whose blocks say what they like."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    head = b"Obj\x01" + long(1) + long(11) + b"avro.schema" + long(len(text)) + text.encode()
    parts = [long(count) + long(len(data)) + data + SYNC for count, data in blocks]
    path.write_bytes(head + long(0) + SYNC + b"".join(parts))
    return path


def test_a_recursive_schema_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "f", NODE, (2, chain(1) + chain(100)), (1, chain(0)))
    reader = AvroDeserializer(path, "LITERAL")
    assert list(reader.read(2).bodies) == [chain(1), chain(100)]
    assert list(reader.read(2).bodies) == [chain(0)]
    assert len(reader.read(2)) == 0
    reader.seek(1)
    assert list(reader.read(5).bodies) == [chain(100), chain(0)]
    reader.close()


@pytest.mark.parametrize(
    ("schema", "block"),
    [
        (NODE, (1, chain(1_000_000))),  # the stack of C
        ({"type": "array", "items": "null"}, (1, long(1 << 40) + b"\0")),
        ({"type": "array", "items": EMPTY}, (1, long(-(1 << 40)) + long(0) + b"\0")),
        (EMPTY, (1 << 40, b"")),
        ("null", (1 << 40, b"")),
        (NODE, (5, chain(1))),  # it ends too early
        ("string", (1, long(1 << 40))),
    ],
)
def test_a_hostile_value_is_refused_after_what_was_good(
    tmp_path: Path, schema: Any, block: tuple[int, bytes]
) -> None:
    text = f'"{schema}"' if isinstance(schema, str) else schema
    good = {"string": b"\2x", "null": b""}.get(str(schema), b"" if schema is EMPTY else b"\0")
    reader = AvroDeserializer(write(tmp_path / "f", text, (1, good), block), "HASH")
    assert list(reader.read(100).bodies) == [good]
    for _ in range(2):  # it does not become the end of the file
        with pytest.raises(IngestError, match="after 1 others cannot be read"):
            reader.read(100)
    reader.seek(1)
    with pytest.raises(IngestError, match="after 1 others cannot be read"):
        reader.read(100)
    reader.close()


@pytest.mark.parametrize(
    "schema",
    [
        '{"type":"array","items":' * 100_000,
        '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000,
        '{"type":"record","name":"R","fields":[{"name":"a","type":"Unknown"}]}',
        "{}",
        "[]]",
    ],
)
def test_a_hostile_schema_is_no_avro_file(tmp_path: Path, schema: str) -> None:
    with pytest.raises(IngestError, match="is no Avro file"):
        AvroDeserializer(write(tmp_path / "f", schema, (1, b"\0")), "HASH")


def test_what_is_no_file_of_avro_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for data in (b"", b"Obj", b"Obj\x01" + long(1) + long(1 << 40), b"\xff" * 100):
        path.write_bytes(data)
        with pytest.raises(IngestError, match="is no Avro file"):
            AvroDeserializer(path, "HASH")
