"""Drivers are killed with SIGKILL at random points: each record counts once, in a copied topic, in
totals that are counted with state, in landed files and in a table.

A driver takes many seconds of processor time to start, so a plain run kills one, and one driver
runs all queries; `HEADRACE_DRIVER_KILLS=20` kills twenty. `test_sink_commit.py` tests what a commit
leaves that ends at any single one of its requests.
"""

import json
import os
import random
import time
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from headrace.audit.confluent import AuditedProducer
from headrace.audit.feed import read_audit
from headrace.audit.reconciliation import AuditRow, Reconciliation
from headrace.audit.reporter import Reporter
from headrace.audit.tally import Tally
from headrace.client.settings import ClientSettings
from headrace.flow.land import logged_files, stray_files
from headrace.flow.storage.file_store import LocalFileStore
from testkit.fault.killable_driver import START_SECONDS, KillableDriver
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

DRIVER = Path(__file__).with_name("program") / "crash.py"
KILLS = int(os.environ.get("HEADRACE_DRIVER_KILLS", "1"))
QUERIES = ("copy", "count", "land", "land-table")
PARTITIONS = 2
BATCH_ROWS = 20
BUCKET_MS = 10_000
# About how long a micro-batch takes after its offsets are written.
_BATCH_SECONDS = 1.0


class Site:
    """The topics, the records that were sent, and the results of the queries."""

    def __init__(self, broker: BrokerProcess, topic: str, folder: Path) -> None:
        self._address, self._audit_topic = broker.address, f"{topic}-audit"
        self.source, self.copy, self.totals = f"{topic}-in", f"{topic}-copy", f"{topic}-totals"
        self.lake = folder / "lake"
        self._table = folder / "table"
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = [NewTopic(each, PARTITIONS, 1) for each in (self.source, self.copy)]
        for created in admin.create_topics([*topics, NewTopic(self.totals, 1, 1)]).values():
            created.result(60)
        self.written: list[bytes] = []
        self.words: Counter[str] = Counter()
        self._sent = Tally("producer", bucket_ms=BUCKET_MS)
        config = {"bootstrap.servers": broker.address, "linger.ms": 0}
        self._producer = AuditedProducer(config, self._sent)
        self.task = {
            "address": broker.address,
            "folder": str(folder),
            "batch_rows": BATCH_ROWS,
            "source": self.source,
            "copy": self.copy,
            "totals": self.totals,
            "settings": {
                "audit": "on",
                "audit.topic": self._audit_topic,
                "audit.bucketMs": str(BUCKET_MS),
            },
        }

    def feed(self, batches: int, chance: random.Random) -> None:
        for _ in range(batches * BATCH_ROWS):
            word, value = chance.choice("abcdefgh"), b"record %d" % len(self.written)
            self.words[word] += 1
            self.written.append(value)
            partition = len(self.written) % PARTITIONS
            self._producer.produce(self.source, value, key=word, partition=partition)
        assert self._producer.flush(60) == 0

    def copied_to(self) -> list[tuple[int, int]]:
        """Return where the copy ends, with records that are not committed."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": "looks-at-the-end",
                "isolation.level": "read_uncommitted",
            }
        )
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(self.copy, partition), 30)
                for partition in range(PARTITIONS)
            ]
        finally:
            consumer.close()

    def copied(self) -> Counter[bytes]:
        return Counter(read_to_end(self._address, self.copy, range(PARTITIONS)))

    def counted(self) -> dict[str, list[int]]:
        """Return the totals of each word, in the order in which they were written."""
        totals: defaultdict[str, list[int]] = defaultdict(list)
        for row in map(json.loads, read_to_end(self._address, self.totals)):
            totals[row["word"]].append(row["n"])
        return totals

    def landed(self, files: list[Path]) -> Counter[bytes]:
        return Counter(
            value for each in files for value in pq.read_table(each)["value"].to_pylist()
        )

    def in_table(self) -> Counter[bytes]:
        return Counter(DeltaTable(str(self._table)).to_pyarrow_table()["value"].to_pylist())

    def audit(self) -> list[AuditRow]:
        """Return how many records were sent, and how many of them the topology has counted."""
        settings = ClientSettings.of({"bootstrap.servers": self._address})
        Reporter(self._sent, settings, topic=self._audit_topic).report()
        found = Reconciliation()
        found.add(read_audit(settings, 0, self._audit_topic))
        return found.rows(now_ms=2**60, grace_ms=0)


def wait_for_a_moment_to_die(driver: KillableDriver, site: Site, chance: random.Random) -> None:
    """Wait for a random moment while batches run: any time, or just after the sink of a query has
    written rows, or just after Spark has recorded the start or end of a batch."""
    query = chance.choice(QUERIES)
    moment = chance.choice(["anywhere", "rows", "offsets", "commits"])
    match moment:
        case "anywhere":
            before = driver.noted(query, "offsets")
            driver.wait_for(f"a batch of {query}", lambda: driver.noted(query, "offsets") > before)
            time.sleep(chance.uniform(0, _BATCH_SECONDS))
        case "rows":
            end = site.copied_to()
            driver.wait_for("rows in the copy", lambda: site.copied_to() != end)
        case _:
            # Not the first of this driver: that one may be a batch which its predecessor began.
            expected = driver.noted(query, moment) + 2
            driver.wait_for(
                f"{expected} {moment} of {query}", lambda: driver.noted(query, moment) >= expected
            )


@pytest.mark.timeout((KILLS + 2) * 3 * START_SECONDS)
def test_every_record_counts_once_whenever_the_driver_is_killed(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    site = Site(broker, topic, tmp_path)
    driver = KillableDriver(DRIVER, site.task, tmp_path)

    for _ in range(KILLS):
        site.feed(batches=4, chance=chance)
        with driver.running():
            wait_for_a_moment_to_die(driver, site, chance)
    driver.finish()

    once, lake = Counter(site.written), LocalFileStore(site.lake)
    assert site.copied() == once, f"seed {seed}"
    totals = site.counted()
    assert {word: max(each) for word, each in totals.items()} == site.words, f"seed {seed}"
    for word, each in totals.items():
        assert each == sorted(set(each)), f"{word} was written twice or out of order, seed {seed}"
    assert site.landed([Path(each) for each in logged_files(lake)]) == once, f"seed {seed}"
    # Readers that do not know Spark's log see the same once files of killed drivers are removed.
    for stray in stray_files(lake):
        lake.remove(stray)
    assert site.landed(list(site.lake.glob("date=*/hour=*/*.parquet"))) == once, f"seed {seed}"
    assert site.in_table() == once, f"seed {seed}"
    rows = site.audit()
    assert sum(row.sent for row in rows) == len(site.written)
    audited = {(tier.tier, tier.percent) for row in rows for tier in row.tiers}
    assert audited == {("crash", 100.0)}, f"seed {seed}"
