"""Three columns of JSON and of Avro values, decoded by our source and by `from_json` behind Spark's
own connector.

Values have six fields, of which three are read. Our side asks for the column `value` alone, with
these three, as docs/spark.md advises. The connector has no such choice: it fills all its columns,
and `from_json` gets the three fields. Spark's `from_avro` needs spark-avro, which is not to be had
here: the Avro rows are held against the connector with the same clicks as JSON.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import fastavro

from bench import rdkafka_client
from bench.broker_pair import new_topic
from bench.spark_ground import OURS, Ground

PARTITIONS = 6
COLUMNS = "id BIGINT, page STRING, ms INT"
_STRUCT = "value STRUCT<id: BIGINT, page: STRING, ms: INT>"
_TYPES = {
    "id": "long",
    "page": "string",
    "user": "string",
    "agent": "string",
    "ms": "int",
    "new": "boolean",
}
_AVRO = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": name, "type": kind} for name, kind in _TYPES.items()],
}
# What a topic of `rdkafka_client.produce` repeats.
_HANDFUL = 200

Read = Callable[[str], None]

# Spark's own reader of Avro is not to be had for this version: the connector reads JSON.
_NAMES = {"json": "JSON", "avro": "Avro, theirs of JSON"}


class DecodeLoad:
    """The topics, and one read of each kind."""

    def __init__(self, ground: Ground, records: int) -> None:
        self._ground = ground
        self.records = records // _HANDFUL * _HANDFUL
        clicks = [_click(number) for number in range(_HANDFUL)]
        self._topics = {
            "json": self._topic([json.dumps(each).encode() for each in clicks]),
            "avro": self._topic([_encoded(each) for each in clicks]),
        }
        times = self.records // _HANDFUL
        self._expected = (
            self.records,
            times * sum(each["id"] for each in clicks),
            times * sum(len(each["page"]) for each in clicks),
            times * sum(each["ms"] for each in clicks),
        )

    def reads(self) -> Iterator[tuple[str, Read]]:
        """Yield a name and a function per read, which takes the side to run."""
        for name in ("json", "avro"):
            what = _NAMES[name]
            yield f"batch read of three columns of {what}", self._batch(name)
            yield f"streaming read of three columns of {what}", self._stream(name)

    def _topic(self, values: Sequence[bytes]) -> str:
        topic = new_topic(self._ground.broker, PARTITIONS)
        rdkafka_client.produce(
            self._ground.broker.address, topic, values, records=self.records, partitions=PARTITIONS
        )
        return topic

    def _batch(self, name: str) -> Read:
        def read(side: str) -> None:
            rows = self._columns(self._ground.spark.read, side, name)
            sums = "count(*)", "sum(id)", "sum(length(page))", "sum(ms)"
            self._check(side, rows.selectExpr(*sums).collect()[0])

        return read

    def _stream(self, name: str) -> Read:
        def read(side: str) -> None:
            from pyspark.sql import functions as F  # noqa: N812 - the usual name

            reader = self._ground.spark.readStream.option("startingOffsets", "earliest")
            rows = self._columns(reader, side, name).select("id", F.length("page").alias("n"), "ms")
            found = self._ground.observed(
                rows, rows=F.count(F.lit(1)), ids=F.sum("id"), pages=F.sum("n"), ms=F.sum("ms")
            )
            self._check(side, found)

        return read

    def _columns(self, reader: Any, side: str, name: str) -> Any:
        if side == OURS:
            schema = COLUMNS if name == "json" else json.dumps(_AVRO)
            options = {"valueFormat": name, "valueSchema": schema, "subscribe": self._topics[name]}
            return self._ground.of(reader.schema(_STRUCT), side, **options).load().select("value.*")
        rows = self._ground.of(reader, side, subscribe=self._topics["json"]).load()
        return rows.selectExpr(f"from_json(CAST(value AS STRING), '{COLUMNS}') AS c").select("c.*")

    def _check(self, side: str, found: Sequence[int]) -> None:
        if tuple(found) != self._expected:
            raise AssertionError(f"{side} read {tuple(found)} instead of {self._expected}")


def _click(number: int) -> dict[str, Any]:
    return {
        "id": 7_000_000 + number,
        "page": f"/product/{number * 37 % 1000}",
        "user": f"u-{number * 7919:08d}",
        "agent": "Mozilla/5.0",
        "ms": number * 13 % 500,
        "new": number % 3 == 0,
    }


def _encoded(click: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(_AVRO), click)
    return out.getvalue()
