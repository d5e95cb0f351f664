"""Avro values into columns: our reader against fastavro's, one value at a time.

Values are 100,000 clicks: a long, three strings, a double, a nullable long, a record inside, an
array of three ints and an enum, about 90 bytes each. fastavro's side ends with the same Arrow
array. Rates are by the CPU time of one thread, which a busy neighbour distorts less than the clock.
Spark's own `from_avro` needs spark-avro, which is not among the jars of this project.
"""

import io
import json
import time
from collections.abc import Callable

import fastavro
import pyarrow as pa

from bench.row import Row, alternate, median, spread
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.avro import AvroColumnReader

RECORDS = 100_000
ROUNDS = 5
BAR = 3.0
PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "latitude", "type": "double"}, {"name": "country", "type": "string"}],
}
ACTION = {"type": "enum", "name": "Action", "symbols": ["VIEW", "CLICK", "BUY"]}
CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "page", "type": "string"},
        {"name": "user", "type": "string"},
        {"name": "agent", "type": "string"},
        {"name": "score", "type": "double"},
        {"name": "referrer", "type": ["null", "long"]},
        {"name": "place", "type": PLACE},
        {"name": "items", "type": {"type": "array", "items": "int"}},
        {"name": "action", "type": ACTION},
    ],
}
FEWER = {"type": "record", "name": "Click", "fields": [CLICK["fields"][0], CLICK["fields"][4]]}  # type: ignore[index]


def run() -> list[Row]:
    schema = fastavro.parse_schema(CLICK)
    values = pa.array([encoded(schema, number) for number in range(RECORDS)], pa.binary())
    return [
        versus("decode clicks", values, schema, None),
        versus("decode two of nine fields by a reader's schema", values, schema, FEWER),
    ]


def encoded(schema: object, number: int) -> bytes:
    out = io.BytesIO()
    click = {
        "id": number,
        "page": f"/products/{number % 1000}",
        "user": f"user-{number * 7919 % RECORDS}",
        "agent": "Mozilla/5.0 (X11; Linux x86_64)",
        "score": number / 7,
        "referrer": None if number % 3 else number,
        "place": {"latitude": number / 3, "country": "AT"},
        "items": [number % 5, number, 7],
        "action": "CLICK",
    }
    fastavro.schemaless_writer(out, schema, click)  # type: ignore[arg-type]
    return out.getvalue()


def versus(name: str, values: pa.Array, schema: object, fewer: object) -> Row:
    texts = [CLICK] if fewer is None else [CLICK, fewer]
    schemas = [parse(SchemaText(SchemaType.AVRO, json.dumps(each))) for each in texts]
    reader = AvroColumnReader(*schemas)  # type: ignore[arg-type]
    target = None if fewer is None else fastavro.parse_schema(fewer)  # type: ignore[arg-type]

    def ours() -> pa.Array:
        return reader.read(values).values

    def theirs() -> pa.Array:
        rows = [
            fastavro.schemaless_reader(io.BytesIO(value), schema, target)  # type: ignore[arg-type]
            for value in values.to_pylist()
        ]
        return pa.array(rows, reader.type)

    if not ours().equals(theirs()):
        raise ValueError("fastavro reads something else")
    our_rounds, their_rounds = alternate(rate(ours), rate(theirs), ROUNDS)
    mine, other = median(our_rounds), median(their_rounds)
    return Row(
        name=name,
        ours=mine,
        theirs=other,
        unit="M records/s",
        spread=spread(our_rounds),
        bar=f"≥ {BAR:g}×",
        reached=mine / other >= BAR,
    )


def rate(call: Callable[[], object]) -> Callable[[], float]:
    """Millions of records a second of one core."""

    def measure() -> float:
        begin = time.process_time()
        call()
        return RECORDS / (time.process_time() - begin) / 1e6

    return measure
