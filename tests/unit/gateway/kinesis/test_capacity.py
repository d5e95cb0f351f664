"""How many shards and partitions a load needs: the service's limits decide."""

import pytest

from headrace.gateway.kinesis.capacity import Load, plan_partitions, plan_shards
from headrace.model.error import ConfigError


def load(records: float, kib: float = 1, consumers: int = 1, hours: float = 24) -> Load:
    return Load(
        records_per_second=records, record_kib=kib, consumers=consumers, retention_hours=hours
    )


@pytest.mark.parametrize(
    ("given", "fan_out", "polling"),
    [
        (load(1), 1, 1),
        (load(1_000), 1, 1),
        (load(1_001), 2, 2),
        (load(1_000, kib=1.024), 1, 1),
        (load(1_000, kib=1.1), 2, 2),
        (load(10_000, kib=0.1), 10, 10),
        (load(1_024, consumers=5), 2, 3),
        (load(102_400, consumers=2), 103, 103),
        (load(1_024, consumers=0), 2, 2),
    ],
)
def test_records_bytes_and_readers_decide(given: Load, fan_out: int, polling: int) -> None:
    plan = plan_shards(given)

    assert (plan.with_fan_out, plan.with_polling) == (fan_out, polling)


def test_consumers_share_five_reads_per_second() -> None:
    assert plan_shards(load(1, consumers=4)).polling_ms == 800
    assert plan_shards(load(1, consumers=20)).fan_out_fits
    assert not plan_shards(load(1, consumers=21)).fan_out_fits


def test_the_same_load_here() -> None:
    plan = plan_partitions(load(102_400, consumers=2, hours=48), replicas=3)

    assert plan.partitions == 10
    assert (plan.in_mib, plan.out_mib) == (300, 200)
    assert plan.disk_gib == 100 * 48 * 3600 * 3 / 1024


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"records": 0}, "--records-per-second cannot be 0"),
        ({"records": float("nan")}, "--records-per-second"),
        ({"records": 1, "kib": 10_241}, "at most 10240 KiB"),
        ({"records": 1, "hours": 23}, "24 to 8760 hours"),
        ({"records": 1, "consumers": -1}, "--consumers"),
    ],
)
def test_what_the_service_cannot_do_is_refused(wrong: dict[str, float], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        load(**wrong)  # type: ignore[arg-type]
