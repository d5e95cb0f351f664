"""`headrace land --configured`: topics say themselves which tables they land in."""

import os
import random
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client import ClientSettings, ConnectionPool, TopicPartition
from headrace.client.group.group_admin import GroupAdmin
from headrace.landing.configured.landing_status import GROUP
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.sample.configured_lake import ConfiguredLake

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

START_SECONDS = 300.0
KILLS = int(os.environ.get("HEADRACE_LAND_KILLS", "3"))
PASSWORD = "correct-horse"
QUICK = {"freshness.ms": "100"}


@pytest.fixture(scope="module")
def land_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of this file's own: a process lands every topic that is configured so."""
    with BrokerProcess(tmp_path_factory.mktemp("land-broker")) as process:
        yield process


@pytest.fixture
def lake(land_broker: BrokerProcess, tmp_path: Path) -> Iterator[ConfiguredLake]:
    found = ConfiguredLake(land_broker.address, tmp_path)
    yield found
    found.delete_all()


def logged(log: Path, text: str) -> None:
    wait_until(
        lambda: text in log.read_text(),
        what=f"{text!r} in the log",
        timeout_seconds=START_SECONDS,
    )


def test_topics_land_where_their_configuration_says(lake: ConfiguredLake, topic: str) -> None:
    tables = {"a": "delta:shop/a", "b": "iceberg:lake.shop.t"}
    lake.create(f"{topic}-a", {"name": tables["a"]})
    lake.create(f"{topic}-b", {"name": tables["b"], "format": "json", "schema": "id INT"})
    lake.create(f"{topic}-c")
    for each in "abc":
        lake.put(f"{topic}-{each}", range(10))

    first = lake.land()
    lake.put(f"{topic}-b", range(10, 15))
    second = lake.land()

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert lake.ids(tables["a"]) == [*range(10)]
    assert lake.ids(tables["b"]) == [*range(15)]
    assert f"{topic}-b -> {tables['b']}: 5 rows, 15 in all" in second.out
    assert f"{topic}-a -> {tables['a']}: 0" not in second.out
    assert f"{topic}-c" not in first.out


def test_keys_are_checked_where_they_are_set_and_described(
    lake: ConfiguredLake, topic: str
) -> None:
    lake.create(topic, {"name": "delta:clicks"})

    refused = lake.configure(topic, {"name": "delta:../../etc/clicks"})
    apart = lake.configure(topic, {"schema": "id INT"})

    assert refused is not None
    assert (refused.code, "'..' is no folder" in str(refused)) == (ErrorCode.invalid_config, True)
    assert apart is not None
    assert "set headrace.table.format=json" in str(apart)
    environment = {"HEADRACE_BROKERS": lake.broker}
    shown = run_headrace("topic", "describe", topic, environment=environment)
    assert re.search(r"headrace\.table\.name +delta:clicks", shown.out), shown.out


def test_topics_are_found_changed_and_lost_while_it_runs(
    lake: ConfiguredLake, topic: str, tmp_path: Path
) -> None:
    one, two, log = f"{topic}-one", f"{topic}-two", tmp_path / "land.log"
    lake.create(one)
    lake.put(one, range(5))
    with lake.landing(log) as process:
        # Configured while it runs, then at another place, whose table gets all records.
        assert lake.configure(one, {"name": "delta:one", **QUICK}) is None
        lake.wait_for("delta:one", 5, log)
        assert lake.configure(one, {"name": "delta:other"}) is None
        lake.wait_for("delta:other", 5, log)
        lake.put(one, range(5, 8))
        lake.wait_for("delta:other", 8, log)
        assert lake.ids("delta:one") == [*range(5)]
        # Created while it runs, deleted, and created again: its offsets mean other records.
        lake.create(two, {"name": "delta:two", **QUICK})
        lake.put(two, range(3))
        lake.wait_for("delta:two", 3, log)
        lake.delete(two)
        lake.create(two, {"name": "delta:two", **QUICK})
        lake.put(two, range(100, 110))
        logged(log, f"{two} -> delta:two: topic {two} was deleted and created again")
        assert lake.ids("delta:two") == [0, 1, 2]
        assert lake.configure(two, {"name": "delta:two again"}) is None
        lake.wait_for("delta:two again", 10, log)
        # Not configured any more.
        assert lake.configure(two, {"name": ""}) is None
        logged(log, f"{two} -> delta:two again: landing ends")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, log.read_text()


def test_a_table_that_fails_delays_no_other(
    lake: ConfiguredLake, topic: str, tmp_path: Path
) -> None:
    bad, good, log = f"{topic}-bad", f"{topic}-good", tmp_path / "land.log"
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/notes.txt").write_text("mine")
    lake.create(bad, {"name": "delta:bad", **QUICK})
    lake.create(good, {"name": "delta:good", **QUICK})
    lake.put(bad, range(4))
    with lake.landing(log, "--workers", "1", "--metrics", "127.0.0.1:0") as process:
        for number in range(2):
            lake.put(good, range(10 * number, 10 * number + 10))
            lake.wait_for("delta:good", 10 * number + 10, log)
        logged(log, f"{bad} -> delta:bad: delta:bad already exists and is not a Delta table")
        found = re.search(r"Metrics are at (\S+)", log.read_text())
        assert found is not None
        assert figures(found[1], "headrace_land_failing") == {bad: 1, good: 0}
        assert figures(found[1], "headrace_land_table_rows")[good] == 20
        assert figures(found[1], "headrace_land_lag")[good] == 0
        wait_until(
            lambda: "is not a Delta table" in str(lake.statuses().get(bad)),
            what="the problem in the group",
            timeout_seconds=START_SECONDS,
        )
        (tmp_path / "bad/notes.txt").unlink()
        lake.wait_for("delta:bad", 4, log)
        logged(log, f"{bad} -> delta:bad: landing works again")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, log.read_text()

    assert lake.ids("delta:good") == [*range(20)]
    statuses = lake.statuses()
    assert (statuses[good].rows, statuses[bad].rows, statuses[bad].problem) == (20, 4, None)


def figures(url: str, name: str) -> dict[str, float]:
    """Return a metric by topic."""
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    lines = re.findall(rf'^{name}{{.*?topic="([^"]+)".*?}} (\S+)$', text, re.MULTILINE)
    return {topic: float(value) for topic, value in lines}


def test_kill_9_at_any_moment_loses_and_doubles_nothing(
    lake: ConfiguredLake, topic: str, tmp_path: Path
) -> None:
    chance = random.Random(topic)
    names = [f"{topic}-{each}" for each in range(3)]
    for each in names:
        lake.create(each, {"name": f"delta:{each}", **QUICK})
    number = 0
    for turn in range(KILLS):
        log = tmp_path / f"land-{turn}.log"
        with lake.landing(log) as process:
            for each in names:
                lake.put(each, range(number, number + 10))
            number += 10
            logged(log, "rows, ")
            for _ in range(chance.randrange(10)):
                for each in names:
                    lake.put(each, range(number, number + 10))
                number += 10
            assert process.poll() is None, log.read_text()
            process.send_signal(signal.SIGKILL)
            process.wait()

    assert lake.land().code == 0
    for each in names:
        assert lake.ids(f"delta:{each}") == [*range(number)]


def test_two_processes_make_one_of_two_tables_around_each_other(
    lake: ConfiguredLake, topic: str, tmp_path: Path
) -> None:
    tables = {f"{topic}-outer": "delta:x", f"{topic}-inner": "delta:x/y"}
    for name, table in tables.items():
        lake.create(name, {"name": table, **QUICK})
        lake.put(name, range(10))
    logs = [tmp_path / f"land-{number}.log" for number in range(2)]

    def landed() -> list[str]:
        return [each for each in tables.values() if lake.ids(each) == [*range(10)]]

    with lake.landing(logs[0]), lake.landing(logs[1]):
        wait_until(lambda: bool(landed()), what="a table", timeout_seconds=START_SECONDS)
        for log in logs:  # each of them has tried the other one
            wait_until(
                lambda log=log: re.search("is inside|not a Delta table", log.read_text()),  # type: ignore[misc]
                what="a refusal",
                timeout_seconds=START_SECONDS,
            )

    assert len(landed()) == 1
    assert sum(1 for _ in tmp_path.rglob("_delta_log")) == 1


def test_many_topics_take_turns(lake: ConfiguredLake, topic: str) -> None:
    names = [f"{topic}-{each}" for each in range(12)]
    for each in names:
        lake.create(each, {"name": f"delta:many/{each}"})
        lake.put(each, range(3))

    landed = lake.land("--workers", "2", "--quiet")

    assert (landed.code, landed.out, landed.err) == (0, "", "")
    assert all(lake.ids(f"delta:many/{each}") == [0, 1, 2] for each in names)
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": lake.broker})) as pool:
        offsets = GroupAdmin(pool).offsets(GROUP)
    assert [offsets[TopicPartition(each, 0)] for each in names] == [2] * 12


def test_a_topic_that_cannot_land_is_exit_code_1(lake: ConfiguredLake, topic: str) -> None:
    lake.create(topic, {"name": "iceberg:nowhere.shop.t"})
    lake.put(topic, range(3))

    landed = lake.land()

    assert landed.code == 1
    assert f"{topic} -> iceberg:nowhere.shop.t: the catalog nowhere is not configured" in landed.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["clicks"], "TOPIC is said by each topic's headrace.table"),
        (["--as", "json"], "--as is said by"),
        (["--catalog", "uri=x"], "--catalog NAME:KEY=VALUE"),
    ],
)
def test_options_that_topics_say_themselves_are_refused(words: list[str], sentence: str) -> None:
    refused = run_headrace("land", "--configured", *words)
    assert (refused.code != 0, sentence in refused.err) == (True, True), refused.err


def test_a_topic_and_a_table_are_wanted_otherwise() -> None:
    refused = run_headrace("land", "clicks")
    other = run_headrace("land", "clicks", "--table", "delta:x", "--workers", "3")
    assert "headrace land --configured" in refused.err
    assert "--workers goes with --configured only" in other.err


def test_a_process_logs_in_and_lands_what_it_may_read(
    tmp_path: Path, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    users = tmp_path / "users"
    users.write_text(f"lander={PASSWORD}\n")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(tmp_path_factory.mktemp("secure") / "broker", settings) as process:
        found = re.search(r"listens on (\S+), (\S+)", process.log)
        assert found is not None
        lake = ConfiguredLake(found[1], tmp_path)
        lake.create(topic, {"name": "delta:clicks"})
        lake.create(f"{topic}-hidden", {"name": "delta:hidden"})
        lake.put(topic, range(5))
        lake.put(f"{topic}-hidden", range(5))
        allow(found[1], topic)
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "lander",
            "sasl.password": PASSWORD,
        }
        words = [word for key, text in login.items() for word in ("-X", f"{key}={text}")]
        landed = lake.land(*words, "-b", found[2])
        statuses = lake.statuses()

    assert landed.code == 0, landed.err
    assert lake.ids("delta:clicks") == [*range(5)]
    assert lake.ids("delta:hidden") == []
    assert "cannot be shown in the group headrace-land" in landed.err
    assert statuses == {}
    assert PASSWORD not in landed.out + landed.err


def allow(address: str, topic: str) -> None:
    """Let the user read one topic and its configuration, and no group."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:lander",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    ]
    admin = AdminClient({"bootstrap.servers": address})
    for each in admin.create_acls(bindings).values():
        each.result(90)
