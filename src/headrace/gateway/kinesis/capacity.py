"""How many shards a load needs at the service, and how many partitions here. Pure.

The limits are the service's own (its model and documentation, read in November 2026). The figures
for partitions are not limits: nothing bounds a partition here but the disk and its readers. They
are less than a quarter of what a broker took per partition in `bench/RESULTS.md` (547,196 records
of 100 bytes, or 284,235 of 1 KiB, per second into six partitions, with the client on the same
machine).
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

from headrace.model.error import ConfigError

SHARD_RECORDS: Final = 1_000
"""Records per second into a shard."""

SHARD_MIB: Final = 1
"""MiB per second into a shard."""

SHARD_OUT_MIB: Final = 2
"""MiB per second out of a shard: for all readers together, or for each consumer with fan-out."""

SHARD_READS: Final = 5
"""GetRecords per second and shard, of all readers together."""

MOST_FAN_OUT: Final = 20
"""Consumers with fan-out per stream."""

MOST_SHARDS: Final = 10_000
MOST_RECORD_KIB: Final = 10_240
DEFAULT_RECORD_KIB: Final = 1_024
DEFAULT_RETENTION_HOURS: Final = 24
MOST_RETENTION_HOURS: Final = 8_760
PUT_RECORDS: Final = 500
PUT_MIB: Final = 10

PARTITION_RECORDS: Final = 20_000
PARTITION_MIB: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What producers and consumers do.

    Attributes:
        record_kib: the size of a record with its partition key.
    """

    records_per_second: float
    record_kib: float
    consumers: int
    retention_hours: float

    def __post_init__(self) -> None:
        for name, value in (
            ("--records-per-second", self.records_per_second),
            ("--record-kib", self.record_kib),
        ):
            if not 0 < value < 1e12:
                raise ConfigError(f"{name} cannot be {value:g}: write a number above 0")
        if self.record_kib > MOST_RECORD_KIB:
            raise ConfigError(
                f"--record-kib cannot be {self.record_kib:g}: the service takes records of at most"
                f" {MOST_RECORD_KIB} KiB; put larger ones into a file, and its name into the stream"
            )
        if not 0 <= self.consumers <= 10_000:
            raise ConfigError(f"--consumers cannot be {self.consumers}: write 0 to 10000")
        if not DEFAULT_RETENTION_HOURS <= self.retention_hours <= MOST_RETENTION_HOURS:
            raise ConfigError(
                f"--retention cannot be {self.retention_hours:g} hours: the service keeps records"
                f" for {DEFAULT_RETENTION_HOURS} to {MOST_RETENTION_HOURS} hours (365 days)"
            )

    @property
    def mib_per_second(self) -> float:
        """What comes in."""
        return self.records_per_second * self.record_kib / 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """What a load needs at the service.

    Attributes:
        shards_for_records: so that no shard gets too many records.
        shards_for_bytes: so that none gets too many bytes.
        shards_for_polling: so that all consumers can read with GetRecords.
        polling_ms: how often each consumer can read a shard then.
        fan_out_fits: whether all consumers can have fan-out.
    """

    shards_for_records: int
    shards_for_bytes: int
    shards_for_polling: int
    polling_ms: int
    fan_out_fits: bool

    @property
    def with_fan_out(self) -> int:
        """The shards if each consumer has a throughput of its own."""
        return max(self.shards_for_records, self.shards_for_bytes)

    @property
    def with_polling(self) -> int:
        """The shards if all consumers share the throughput of each shard."""
        return max(self.with_fan_out, self.shards_for_polling)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """What a load needs here.

    Attributes:
        partitions: of the topic.
        in_mib: per second onto the disks of all brokers.
        out_mib: per second to all consumers.
        disk_gib: on all brokers, after the retention.
    """

    partitions: int
    in_mib: float
    out_mib: float
    disk_gib: float


def plan_shards(load: Load) -> ShardPlan:
    """Return what a load needs at the service, if its keys are spread evenly.

    >>> load = Load(records_per_second=5000, record_kib=2, consumers=3, retention_hours=24)
    >>> plan = plan_shards(load)
    >>> plan.with_fan_out, plan.with_polling
    (10, 15)
    """
    return ShardPlan(
        shards_for_records=ceil(load.records_per_second / SHARD_RECORDS),
        shards_for_bytes=ceil(load.mib_per_second / SHARD_MIB),
        shards_for_polling=ceil(load.mib_per_second * load.consumers / SHARD_OUT_MIB),
        polling_ms=ceil(1_000 / SHARD_READS * max(1, load.consumers)),
        fan_out_fits=load.consumers <= MOST_FAN_OUT,
    )


def plan_partitions(load: Load, replicas: int) -> PartitionPlan:
    """Return what the same load needs here.

    Args:
        replicas: on how many brokers each record lies.
    """
    seconds = load.retention_hours * 3_600
    return PartitionPlan(
        partitions=max(
            ceil(load.records_per_second / PARTITION_RECORDS),
            ceil(load.mib_per_second / PARTITION_MIB),
        ),
        in_mib=load.mib_per_second * replicas,
        out_mib=load.mib_per_second * load.consumers,
        disk_gib=load.mib_per_second * seconds * replicas / 1_024,
    )
