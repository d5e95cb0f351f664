"""`headrace kinesis plan`: the shards that a load needs, and the partitions it needs here."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.output import print_json, print_table
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.model.error import ConfigError

if TYPE_CHECKING:
    from headrace.gateway.kinesis.capacity import Load, PartitionPlan, ShardPlan

_EXAMPLES: Final = """
Examples:

  headrace kinesis plan --records-per-second 5000 --record-kib 2 --consumers 3 --retention 7d

  headrace kinesis plan --records-per-second 200 --record-kib 0.5 --format json     for a program

Keys are taken to be spread evenly: all records of one key go to one shard. Limits are those of
Amazon Kinesis Data Streams; docs/kinesis.md tells which of them the gateway applies.
"""
_HOURS: Final = {"h": 1.0, "d": 24.0}
EXAMPLES: Final = epilog(_EXAMPLES)


def plan(
    records_per_second: Annotated[float, typer.Option(help="Records put per second, at peak.")],
    record_kib: Annotated[float, typer.Option(help="KiB per record, with its key.")] = 1.0,
    consumers: Annotated[
        int, typer.Option(help="Applications that read all records, each for itself.")
    ] = 1,
    retention: Annotated[str, typer.Option(help="How long records are kept: 24h, 7d.")] = "24h",
    replicas: Annotated[
        int, typer.Option(min=1, max=100, help="Brokers that keep each record, here.")
    ] = 3,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """Print the shards that a load needs, the limits, and the partitions it needs here."""
    from headrace.gateway.kinesis.capacity import Load, plan_partitions, plan_shards

    load = Load(
        records_per_second=records_per_second,
        record_kib=record_kib,
        consumers=consumers,
        retention_hours=_hours(retention),
    )
    shards, partitions = plan_shards(load), plan_partitions(load, replicas)
    if style is OutputFormat.JSON:
        print_json(_as_json(load, shards, partitions))
        return
    print_table(("load", ""), _load_rows(load))
    print()
    print_table(("kinesis", "", "limit"), _shard_rows(load, shards))
    print()
    print_table(("here", "", "planned with"), _partition_rows(partitions, replicas))
    for note in _notes(load, shards):
        print(f"\n{note}")


def _hours(text: str) -> float:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([hd])", text.strip(), re.ASCII)
    if match is None:
        raise ConfigError(f"--retention cannot be {text!r}: write hours or days, as in 24h or 7d")
    return float(match[1]) * _HOURS[match[2]]


def _load_rows(load: "Load") -> list[tuple[str, str]]:
    return [
        ("put", f"{load.records_per_second:,g} records/s of {load.record_kib:g} KiB"),
        ("bytes", f"{load.mib_per_second:,.2f} MiB/s"),
        ("consumers", f"{load.consumers}"),
        ("retention", f"{load.retention_hours:g} h"),
    ]


def _shard_rows(load: "Load", shards: "ShardPlan") -> list[tuple[str, str, str]]:
    return [
        ("shards for records", f"{shards.shards_for_records:,}", "1,000 records/s in per shard"),
        ("shards for bytes", f"{shards.shards_for_bytes:,}", "1 MiB/s in per shard"),
        (
            "shards for GetRecords",
            f"{shards.shards_for_polling:,}",
            "2 MiB/s out per shard, for all consumers",
        ),
        ("SHARDS with GetRecords", f"{shards.with_polling:,}", "10,000 per stream"),
        (
            "SHARDS with fan-out",
            f"{shards.with_fan_out:,}" if shards.fan_out_fits else "-",
            "2 MiB/s out per shard and consumer, 20 consumers",
        ),
        (
            "a consumer polls every",
            f"{shards.polling_ms:,} ms",
            "5 GetRecords/s per shard, for all consumers",
        ),
        (
            "a record has",
            f"{load.record_kib:g} KiB",
            "1 MiB, or up to 10 MiB if the stream says so",
        ),
        ("a PutRecords has", f"{_per_request(load):,} records", "500 records, 10 MiB"),
        ("records are kept", f"{load.retention_hours:g} h", "24 h to 8,760 h"),
    ]


def _partition_rows(partitions: "PartitionPlan", replicas: int) -> list[tuple[str, str, str]]:
    return [
        ("PARTITIONS", f"{partitions.partitions:,}", "20,000 records/s and 10 MiB/s each"),
        ("onto disks", f"{partitions.in_mib:,.2f} MiB/s", f"{replicas} replicas"),
        ("to consumers", f"{partitions.out_mib:,.2f} MiB/s", "no limit per partition"),
        ("disk", f"{partitions.disk_gib:,.1f} GiB", f"{replicas} replicas, no compression"),
    ]


def _notes(load: "Load", shards: "ShardPlan") -> list[str]:
    from headrace.gateway.kinesis.capacity import DEFAULT_RECORD_KIB, MOST_SHARDS

    notes = ["More partitions let more tasks of one application read at once."]
    if not shards.fan_out_fits:
        notes.append("Fan-out is for at most 20 consumers: let some of them read with GetRecords.")
    if shards.with_fan_out > MOST_SHARDS:
        notes.append("This is more than one stream can have: divide the records into several.")
    if load.record_kib > DEFAULT_RECORD_KIB:
        notes.append("Records of this size need UpdateMaxRecordSize.")
    if shards.shards_for_records > shards.shards_for_bytes:
        notes.append("Records decide, not bytes: the KPL's aggregation would need fewer shards.")
    return notes


def _per_request(load: "Load") -> int:
    from headrace.gateway.kinesis.capacity import PUT_MIB, PUT_RECORDS

    return max(1, min(PUT_RECORDS, int(PUT_MIB * 1_024 / load.record_kib)))


def _as_json(load: "Load", shards: "ShardPlan", partitions: "PartitionPlan") -> dict[str, object]:
    return {
        "mib_per_second": load.mib_per_second,
        "kinesis": {
            "shards_with_getrecords": shards.with_polling,
            "shards_with_fan_out": shards.with_fan_out if shards.fan_out_fits else None,
            "shards_for_records": shards.shards_for_records,
            "shards_for_bytes": shards.shards_for_bytes,
            "shards_for_getrecords": shards.shards_for_polling,
            "poll_every_ms": shards.polling_ms,
        },
        "here": {
            "partitions": partitions.partitions,
            "disks_mib_per_second": partitions.in_mib,
            "consumers_mib_per_second": partitions.out_mib,
            "disk_gib": partitions.disk_gib,
        },
    }
