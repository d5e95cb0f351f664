"""`headrace kinesis plan`: a table for people, JSON for programs."""

import json

from testkit.process.command_line import run_headrace


def test_it_prints_shards_limits_and_partitions() -> None:
    load = ["--records-per-second", "5000", "--record-kib", "2", "--consumers", "3"]
    shown = run_headrace("kinesis", "plan", *load, "--retention", "7d")

    assert shown.code == 0
    lines = {" ".join(line.split()) for line in shown.out.splitlines()}
    assert "SHARDS with GetRecords 15 10,000 per stream" in lines
    assert "SHARDS with fan-out 10 2 MiB/s out per shard and consumer, 20 consumers" in lines
    assert "PARTITIONS 1 20,000 records/s and 10 MiB/s each" in lines
    assert "disk 17,303.5 GiB 3 replicas, no compression" in lines


def test_a_program_gets_json() -> None:
    shown = run_headrace(*["kinesis", "plan", "--records-per-second", "5000", "--format", "json"])

    assert json.loads(shown.out)["kinesis"]["shards_with_fan_out"] == 5


def test_a_wrong_retention_is_one_sentence() -> None:
    shown = run_headrace(*["kinesis", "plan", "--records-per-second", "1", "--retention", "week"])

    assert shown.code != 0
    assert "write hours or days, as in 24h or 7d" in shown.err


def test_help_has_an_example() -> None:
    shown = run_headrace("kinesis", "plan", "--help")

    assert "headrace kinesis plan --records-per-second 5000" in shown.out
