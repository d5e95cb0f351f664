"""`kafka.*` settings of a plan reach each of its clients."""

from pathlib import Path

import pytest

from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.execution.connector_option import sink_options
from headrace.flow.execution.realtime import connector_options
from headrace.flow.land import Landing
from headrace.flow.plan.client_option import (
    client_of,
    client_options,
    with_login,
    with_user_login,
)
from headrace.flow.plan.plan import Plan
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.model.error import ConfigError
from headrace.spark.sink.option import read_sink_options
from headrace.spark.source.option import SourceOptions

JAAS = 'org.x.PlainLoginModule required username="anna" password="MARKED";'
LOGIN = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": JAAS,
    "kafka.ssl.ca.location": "/ca.pem",
}
OURS = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "anna",
    "kafka.sasl.password": "MARKED",
    "kafka.ssl.ca.location": "/ca.pem",
}


def plan(settings: dict[str, str], **spout: dict[str, str]) -> Plan:
    made = Topology("words", settings=settings)
    made.spout("lines", TopicSpout("in", brokers="b:9092", fields="value STRING", **spout))  # type: ignore[arg-type]
    made.sink("out", TopicSink("out")).shuffle("lines")
    return made.plan()


def options_of(plan: Plan) -> dict[str, str]:
    found: dict[str, str] = plan.components["lines"].work.options
    return found


def test_a_login_in_javas_words_reaches_a_spout_in_ours() -> None:
    secured = with_login(plan({**LOGIN, "spark.x": "1"}, options={"minPartitions": "4"}))

    assert options_of(secured) == {**OURS, "minPartitions": "4"}
    assert with_login(secured) == secured or options_of(with_login(secured)) == options_of(secured)


def test_a_spout_with_a_login_of_its_own_gets_none_of_the_plans() -> None:
    settings = {**LOGIN, "kafka.request.timeout.ms": "5000"}
    own = {"kafka.security.protocol": "PLAINTEXT", "kafka.group.id": "mine"}

    secured = with_login(plan(settings, options=own))

    assert options_of(secured) == {**own, "kafka.request.timeout.ms": "5000"}


def test_a_setting_of_the_source_or_of_the_sink_goes_before_the_common_one() -> None:
    settings = {**LOGIN, "source.kafka.sasl.username": "bob", "sink.kafka.acks": "all"}
    settings |= {"sink.kafka.sasl.username": "carol"}
    declared = plan(settings)

    assert options_of(with_login(declared))["kafka.sasl.username"] == "bob"
    sink = sink_options(declared)
    assert (sink["kafka.sasl.username"], sink["kafka.sasl.password"]) == ("carol", "MARKED")
    assert sink["kafka.acks"] == "all"


@pytest.fixture
def client_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=b:9092,c:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.username=anna\nsasl.password=MARKED\nssl.ca.location=/ca.pem\n"
    )
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(path))


@pytest.mark.usefixtures("client_file")
def test_a_program_without_a_login_has_that_of_the_user() -> None:
    made = with_user_login(plan({"spark.x": "1"}), "c:9092")

    assert made.settings == {**OURS, "spark.x": "1"}
    assert options_of(with_login(made)) == OURS


@pytest.mark.usefixtures("client_file")
def test_a_program_with_a_login_of_its_own_gets_none_of_the_users() -> None:
    own = {"kafka.security.protocol": "PLAINTEXT"}

    assert with_user_login(plan(own), "b:9092").settings == own


@pytest.mark.usefixtures("client_file")
def test_a_program_for_another_cluster_gets_nothing_of_the_users() -> None:
    assert with_user_login(plan({}), "z:9092").settings == {}


@pytest.mark.usefixtures("client_file")
def test_a_spout_that_reads_another_cluster_is_not_sent_the_password() -> None:
    declared = Topology("words")
    declared.spout("lines", TopicSpout("in", brokers="z:9092", fields="value STRING"))
    declared.sink("out", TopicSink("out")).shuffle("lines")

    options = options_of(with_login(with_user_login(declared.plan(), "b:9092")))

    assert options == {"kafka.security.protocol": "PLAINTEXT"}


@pytest.mark.usefixtures("client_file")
def test_a_spout_whose_option_names_another_cluster_is_not_sent_the_password() -> None:
    servers = {"kafka.bootstrap.servers": "z:9092"}

    options = options_of(with_login(with_user_login(plan({}, options=servers), "b:9092")))

    assert options == {**servers, "kafka.security.protocol": "PLAINTEXT"}


@pytest.mark.usefixtures("client_file")
def test_landing_from_another_cluster_by_an_option_is_not_sent_the_password() -> None:
    servers = {"kafka.bootstrap.servers": "z:9092"}
    elsewhere = Landing(topics="in", brokers="b:9092", folder="lake", options=servers)
    here = Landing(topics="in", brokers="b:9092", folder="lake")

    assert not any("password" in key for key in elsewhere._source_options())
    assert here._source_options()["kafka.sasl.password"] == "MARKED"


def test_every_client_is_told_the_same() -> None:
    options = {**client_options(LOGIN), "kafka.bootstrap.servers": "b:9092"}
    sink = read_sink_options({**options, "topic": "out"}, streaming=True)
    source = SourceOptions.of({**options, "subscribe": "in"})
    wanted = client_of(LOGIN, "b:9092")

    for client in (sink.client, source.client):
        assert {key: client[key] for key in wanted} == wanted
    assert connector_options(LOGIN)["kafka.sasl.jaas.config"].endswith(
        'PlainLoginModule required username="anna" password="MARKED";'
    )


def test_the_text_of_options_has_no_password() -> None:
    options = {**client_options(LOGIN), "kafka.bootstrap.servers": "b:9092"}

    assert "MARKED" not in repr(SourceOptions.of({**options, "subscribe": "in"}))
    assert "MARKED" not in repr(read_sink_options({**options, "topic": "o"}, streaming=True))


def test_what_is_not_for_all_clients_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"write source\.kafka\.group\.id or sink"):
        with_login(plan({"kafka.group.id": "mine"}))


def test_a_login_that_is_not_whole_is_reported_before_spark_starts() -> None:
    with pytest.raises(ConfigError, match="SASL needs a name and a password"):
        with_login(plan({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.username": "anna"}))
