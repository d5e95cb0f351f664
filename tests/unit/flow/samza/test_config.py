"""A job's configuration, and the errors about its mistakes."""

from pathlib import Path
from typing import Any

import pytest

from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.plan.client_option import client_options, with_login
from headrace.flow.plan.plan import Guarantee
from headrace.flow.samza.config import JobConfig, read_config
from headrace.flow.samza.input_record import spout_name
from headrace.flow.samza.job import SamzaJob, load
from headrace.flow.samza.serde import JsonSerde, StringSerde
from headrace.model.error import ConfigError

TASK = """
from headrace.flow.samza.serde import Serde
from headrace.flow.samza.task import StreamTask, WindowableTask


class Count(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass


class Tell(Count, WindowableTask):
    def window(self, collector, coordinator):
        pass


class Shout(Serde):
    def to_bytes(self, value):
        return value.upper().encode()
"""

MINIMAL = {
    "job.name": "views",
    "task.class": "samza_config_tasks:Count",
    "task.inputs": "kafka.views",
    "systems.kafka.producer.bootstrap.servers": "127.0.0.1:9092",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "samza_config_tasks.py").write_text(TASK)
    return tmp_path


def config(folder: Path, **more: Any) -> JobConfig:
    """Return the smallest job with these keys added; `__` stands for a dot."""
    keys = {key.replace("__", "."): value for key, value in more.items()}
    return read_config({k: v for k, v in (MINIMAL | keys).items() if v is not None}, folder)


def problem(folder: Path, keys: dict[str, str | None]) -> str:
    texts = {key: text for key, text in (MINIMAL | keys).items() if text is not None}
    with pytest.raises(ConfigError) as caught:
        read_config(texts, folder)
    return str(caught.value)


def test_the_smallest_job(folder: Path) -> None:
    read = config(folder)
    assert (read.name, read.id, read.task.__name__) == ("views", "1", "Count")
    assert [str(each.stream) for each in read.inputs] == ["kafka.views"]
    assert not read.inputs[0].oldest  # Samza's default is to begin with new messages
    assert read.guarantee is Guarantee.EXACTLY_ONCE
    assert read.window_ms is None


@pytest.mark.parametrize("key", ["job.name", "task.class", "task.inputs"])
def test_a_missing_key_is_named_with_an_example(folder: Path, key: str) -> None:
    assert problem(folder, {key: None}).startswith(f"{key} is missing: write {key}=")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("task.windw.ms", "task.window.ms"),
        ("taks.inputs", "task.inputs"),
        ("systems.kafka.samza.msg.sered", "systems.kafka.samza.msg.serde"),
        ("stores.counts.chagelog", "stores.counts.changelog"),
        ("streams.views.samza.offset.defalt", "streams.views.samza.offset.default"),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest_one(
    folder: Path, key: str, meant: str
) -> None:
    assert problem(folder, {key: "x"}) == f"{key} is no key of a job; did you mean {meant}?"


def test_the_users_own_keys_reach_the_task(folder: Path) -> None:
    assert read_config({**MINIMAL, "alert.limit": "3"}, folder).texts["alert.limit"] == "3"


def test_keys_for_what_spark_does_have_no_effect(folder: Path) -> None:
    keys = {"job.factory.class": "org.apache.samza.job.yarn.YarnJobFactory", "yarn.queue": "q"}
    assert read_config({**MINIMAL, **keys}, folder).name == "views"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"task.class": "samza_config_tasks.Count"}, "write it as module:Class"),
        ({"task.class": "samza_config_tasks:Conut"}, "it has Count, Tell, Shout"),
        ({"task.class": "samza_config_tasks:Shout"}, "no StreamTask"),
        ({"task.class": "no_such_module:Count"}, "cannot be loaded"),
        ({"task.window.ms": "soon"}, "write a whole number"),
        ({"task.window.ms": "100"}, "Count is no WindowableTask"),
        ({"task.inputs": "kafak.views"}, "there is no system 'kafak'"),
        ({"task.inputs": "kafka.views,kafka.views"}, "an input twice"),
        ({"systems.kafka.samza.msg.serde": "jsno"}, "write one of string, json, avro"),
        ({"systems.kafka.samza.offset.default": "latest"}, "write oldest or upcoming"),
        ({"systems.kafka.samza.factory": "x.HdfsSystemFactory"}, "the only system here"),
        ({"systems.kafka.producer.bootstrap.servers": None}, "bootstrap.servers is missing"),
        ({"stores.counts.msg.serde": "json"}, "stores.counts.key.serde is missing"),
        ({"task.broadcast.inputs": "kafka.rules"}, "write the partitions too"),
        ({"app.class": "x.App", "task.class": None}, "write it as module:Class"),
        (
            {"job.systemstreampartition.grouper.factory": "x.GroupBySystemStreamPartitionFactory"},
            "GroupByPartitionFactory",
        ),
        ({"headrace.guarantee": "twice"}, "write at-most-once or at-least-once or exactly-once"),
    ],
)
def test_a_wrong_value_is_reported_in_one_sentence(
    folder: Path, keys: dict[str, str | None], said: str
) -> None:
    message = problem(folder, keys)
    assert said in message
    assert "\n" not in message


def test_the_most_specific_key_decides_on_a_streams_serde(folder: Path) -> None:
    read = read_config(
        {
            **MINIMAL,
            "task.inputs": "kafka.views,kafka.users,clicks",
            "systems.kafka.samza.msg.serde": "string",
            "systems.kafka.streams.users.samza.msg.serde": "json",
            "streams.clicks.samza.system": "kafka",
            "streams.clicks.samza.physical.name": "click-events",
            "streams.clicks.samza.msg.serde": "loud",
            "serializers.registry.loud.class": "samza_config_tasks:Shout",
        },
        folder,
    )
    views, users, clicks = read.inputs
    assert isinstance(views.message_serde, StringSerde)
    assert isinstance(users.message_serde, JsonSerde)
    assert str(clicks.stream) == "kafka.click-events"
    assert clicks.message_serde.to_bytes("a") == b"A"
    assert read.serdes["kafka.click-events"][1].to_bytes("a") == b"A"


def test_a_store_and_its_changelog(folder: Path) -> None:
    read = read_config(
        {
            **MINIMAL,
            "stores.counts.factory": "org.apache.samza.storage.kv.RocksDbStorageFactory",
            "stores.counts.key.serde": "string",
            "stores.counts.msg.serde": "integer",
            "stores.counts.changelog": "kafka.counts-log",
            "stores.default.changelog.replication.factor": "3",
            "stores.counts.changelog.kafka.segment.bytes": "1000",
        },
        folder,
    )
    (store,) = read.stores
    assert (store.name, str(store.changelog)) == ("counts", "kafka.counts-log")
    assert store.replication_factor == 3
    assert store.topic_config == {"segment.bytes": "1000"}


def test_what_is_written_goes_to_one_cluster(folder: Path) -> None:
    keys = {
        "systems.far.producer.bootstrap.servers": "127.0.0.1:1",
        "stores.counts.key.serde": "string",
        "stores.counts.msg.serde": "string",
        "stores.counts.changelog": "far.log",
        "task.checkpoint.system": "kafka",
    }
    assert "another cluster" in problem(folder, dict(keys))


def test_a_file_is_read_with_what_lies_beside_it(folder: Path) -> None:
    path = folder / "job.properties"
    path.write_text("\n".join(f"{key} = {text}" for key, text in MINIMAL.items()))
    assert load(path).config.name == "views"
    assert load(str(path)).plan({"kafka.views": 3}).components["Count"].parallelism == 3


JAAS = 'org.x.PlainLoginModule required username="anna" password="MARKED";'
OTHER = {
    "task.inputs": "kafka.views, open.rules",
    "systems.open.consumer.bootstrap.servers": "other:9092",
    "job.default.system": "kafka",
}


@pytest.mark.parametrize("door", ["consumer", "producer"])
def test_a_login_of_either_door_reaches_all_clients_of_its_system(folder: Path, door: str) -> None:
    keys = {
        f"systems.kafka.{door}.security.protocol": "SASL_PLAINTEXT",
        f"systems.kafka.{door}.sasl.jaas.config": JAAS,
        f"systems.kafka.{door}.linger.ms" if door == "producer" else "alert.limit": "3",
    }
    made = read_config({**MINIMAL, **OTHER, **keys}, folder)
    job = SamzaJob(made)

    plan = job.plan({"kafka.views": 1, "open.rules": 1})

    sink = client_options(plan.settings)
    (mine, other) = (
        with_login(plan).components[spout_name(each, broadcast=False)].work.options
        for each in ("kafka", "open")
    )
    for options in (sink, mine):
        assert options["kafka.sasl.username"] == "anna"
        assert options["kafka.sasl.password"] == "MARKED"
        assert not any("jaas" in key for key in options)
    assert job._client("kafka")["sasl.password"] == "MARKED"
    # Another cluster must not be sent this one's password.
    assert "MARKED" not in str(other) + str(job._client("open"))
    assert "MARKED" not in repr(made)


def test_a_job_in_python_has_the_users_login_for_the_system_that_it_writes_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "client.properties"
    file.write_text(
        "bootstrap.servers=127.0.0.1:9092\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.jaas.config={JAAS}\n"
    )
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(file))
    monkeypatch.syspath_prepend(str(folder))

    job = load({**MINIMAL, **OTHER})
    own = load({**MINIMAL, "systems.kafka.consumer.security.protocol": "PLAINTEXT"})

    assert job._client("kafka")["sasl.password"] == "MARKED"
    assert "MARKED" not in str(job._client("open")) + str(own._client("kafka"))
    plan = with_login(job.plan({"kafka.views": 1, "open.rules": 1}))
    assert client_options(plan.settings)["kafka.sasl.password"] == "MARKED"
    assert "MARKED" not in str(plan.components[spout_name("open", broadcast=False)].work.options)


def test_inputs_and_outputs_have_the_options_of_a_topology(folder: Path) -> None:
    keys = {
        "headrace.source.maxOffsetsPerTrigger": "10",
        "headrace.sink.kafka.transaction.timeout.ms": "900000",
        "headrace.control": "on",
    }
    read = read_config(MINIMAL | keys, folder)

    assert read.settings == {
        "source.maxOffsetsPerTrigger": "10",
        "sink.kafka.transaction.timeout.ms": "900000",
        "control": "on",
    }


def test_an_unknown_option_of_the_inputs_is_refused(folder: Path) -> None:
    found = problem(folder, {"headrace.source.maxOffsetPerTrigger": "10"})

    assert "did you mean source.maxOffsetsPerTrigger?" in found
