"""Tables from topics: rows per second into Delta and Iceberg, and how old a row is when it is read.

Values have 100 bytes, in six partitions. The broker runs beside on the same cores. The rate counts
from before the lander connects until its last commit. Freshness is the age of the oldest row of a
commit when the commit is made, with 10,000 rows per second and the default interval of 5 s.
"""

import os
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa

from bench.broker_pair import Broker, headrace, new_topic
from bench.rdkafka_client import produce
from bench.row import Row, median, spread
from headrace.client import ClientSettings, Writer
from headrace.landing.committer import Landed
from headrace.landing.lander import Lander, LandingOptions
from headrace.landing.row.raw import RawDecoder
from headrace.landing.source import Source
from headrace.landing.table_name import TableName

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))

_PARTITIONS = 6
_VALUE_BYTES = 100
_RECORDS = int(4_000_000 * SCALE)
_RATE_BAR = 1_000_000
_FRESH_ROWS = 10_000
_FRESH_SECONDS = max(15.0 * SCALE, 3.0)
_FRESH_BAR = 10.0


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        broker = headrace(Path(folder))
        broker.start()
        try:
            return [
                row
                for kind in ("delta", "iceberg")
                for row in (
                    _rate(broker, Path(folder), kind),
                    _freshness(broker, Path(folder), kind),
                )
            ]
        finally:
            broker.stop()


def _rate(broker: Broker, folder: Path, kind: str) -> Row:
    topic = new_topic(broker, _PARTITIONS)
    values = [os.urandom(_VALUE_BYTES // 2).hex().encode() for _ in range(200)]
    produce(broker.address, topic, values, records=_RECORDS, partitions=_PARTITIONS)
    rounds = []
    for number in range(ROUNDS):
        lander = _lander(broker, folder, kind, topic, f"{topic}_{number}", follow=False)
        began = time.perf_counter()
        landed = lander.run()
        rounds.append(landed.rows / (time.perf_counter() - began))
    return Row(
        name=f"land raw records in {kind}",
        ours=median(rounds),
        unit="rows/s",
        spread=spread(rounds),
        bar="≥ 1,000,000 rows/s",
        reached=median(rounds) >= _RATE_BAR,
    )


def _freshness(broker: Broker, folder: Path, kind: str) -> Row:
    topic = new_topic(broker, 1)
    written: list[tuple[int, float]] = []
    ages: list[float] = []

    def committed(landed: Landed) -> None:
        now, before = time.monotonic(), committed.offset  # type: ignore[attr-defined]
        offset = (landed.offsets or {}).get(0, 0)
        ages.extend([now - at for first, at in written if before <= first < offset][:1])
        committed.offset = offset  # type: ignore[attr-defined]

    committed.offset = 0  # type: ignore[attr-defined]
    ended = threading.Event()
    lander = _lander(broker, folder, kind, topic, topic, follow=True, committed=committed)
    thread = threading.Thread(target=lander.run, args=[ended.is_set])
    thread.start()
    with Writer({"bootstrap.servers": broker.address}, topic) as writer:
        rows = pa.table({"value": [os.urandom(50).hex()] * (_FRESH_ROWS // 20)})
        began = time.monotonic()
        for number in range(int(_FRESH_SECONDS * 20)):
            written.append((number * rows.num_rows, time.monotonic()))
            writer.write(rows)
            writer.flush()
            time.sleep(max(0.0, began + (number + 1) / 20 - time.monotonic()))
    ended.set()
    thread.join()
    return Row(
        name=f"oldest row of a commit in {kind}, at 10,000 rows/s",
        ours=max(ages),
        unit="s",
        spread=spread(ages),
        bar="≤ 10 s",
        reached=max(ages) <= _FRESH_BAR,
    )


def _lander(
    broker: Broker,
    folder: Path,
    kind: str,
    topic: str,
    table: str,
    *,
    follow: bool,
    **options: object,
) -> Lander:
    name = f"delta:{folder}/{table}" if kind == "delta" else f"iceberg:lake.bench.{table}"
    catalog = {"uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
    return Lander(
        ClientSettings.of({"bootstrap.servers": broker.address}),
        Source(topic=topic, topic_id=None),
        RawDecoder(),
        LandingOptions(table=TableName.parse(name), catalog=catalog, follow=follow),
        **options,  # type: ignore[arg-type]
    )
