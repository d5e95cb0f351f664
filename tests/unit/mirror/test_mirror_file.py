"""MirrorMaker 2's file."""

from pathlib import Path

import pytest

from headrace.mirror.config.mirror_file import MirrorFile
from headrace.model.error import ConfigError

TWO = {
    "clusters": "us, eu",
    "us.bootstrap.servers": "127.0.0.1:9092",
    "eu.bootstrap.servers": "127.0.0.1:9192",
    "us->eu.enabled": "true",
}


def test_the_file_of_kafkas_documentation_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mirror.properties"
    path.write_text(
        "clusters = us, eu\n"
        "us.bootstrap.servers = 127.0.0.1:9092,127.0.0.1:9093\n"
        "eu.bootstrap.servers = 127.0.0.1:9192\n"
        "us->eu.enabled = true\n"
        "us->eu.topics = clicks.*, orders\n"
        "eu->us.enabled = false\n"
        "replication.factor = 1\n"
        "offset.storage.replication.factor = 1\n"
        "us->eu.emit.heartbeats.interval.seconds = 5\n"
        "sync.topic.acls.enabled = false\n"
    )

    found = MirrorFile.read(path)

    (flow,) = found.flows
    assert (flow.name, flow.replication_factor, flow.syncs_at_source) == ("us->eu", 1, True)
    assert flow.topics.matching(["orders", "clicks-eu", "views", "orders2"]) == [
        "clicks-eu",
        "orders",
    ]
    assert (flow.seconds("emit.heartbeats"), flow.seconds("sync.topic.acls")) == (5, None)
    assert found.ignored == ("offset.storage.replication.factor",)
    assert [each.port for each in found.clients["us"].bootstrap] == [9092, 9093]


def test_a_flows_own_key_wins_over_that_of_all() -> None:
    found = MirrorFile.of(TWO | {"topics": "a", "us->eu.topics": "b", "eu->us.enabled": "true"})
    assert {each.name: each.topics.included.text for each in found.flows} == {
        "eu->us": "a",
        "us->eu": "b",
    }


def test_what_mirrors_make_themselves_is_not_copied() -> None:
    (flow,) = MirrorFile.of(TWO).flows
    names = ["a", "__consumer_offsets", "mm2-offsets.us.internal", "a.replica"]
    assert flow.topics.matching(names) == ["a"]
    assert flow.groups.matching(["g", "connect-x", "console-consumer-1"]) == ["g"]


def test_a_login_counts_for_one_cluster_or_for_all() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = module + ' required username="{}" password="x";'
    found = MirrorFile.of(
        TWO
        | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": login.format("both"),
            "eu.sasl.jaas.config": login.format("only"),
            "us.consumer.fetch.max.bytes": "1000",
        }
    )
    users = {name: each.sasl and each.sasl.username for name, each in found.clients.items()}
    assert users == {"us": "both", "eu": "only"}
    assert found.clients["us"].fetch_max_bytes == 1000


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"clusters": "us"}, "fewer than two"),
        ({"clusters": "us, us"}, "twice"),
        ({"clusters": "us, e.u"}, "e.u"),
        ({"us->eu.enabled": "false"}, "no flow is enabled"),
        ({"us->asia.enabled": "true"}, "asia is not among"),
        ({"us->us.enabled": "true"}, "into itself"),
        ({"us->eu.topcs": "a"}, "did you mean topics"),
        ({"topcs": "a"}, "did you mean topics"),
        ({"us->eu.topics": "("}, "no regular expression"),
        ({"replication.policy.class": "com.example.Mine"}, "cannot be used here"),
        ({"replication.policy.separator": ""}, "separator is empty"),
        ({"offset-syncs.topic.location": "both"}, "neither source nor target"),
        ({"us.ssl.keystore.key": "x"}, "take it out"),
        ({"us.bootstrap.servers": ""}, "bootstrap.servers"),
    ],
)
def test_what_cannot_be_is_refused(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        MirrorFile.of(TWO | texts)
    assert words in str(refused.value)


def test_a_cluster_without_brokers_is_refused() -> None:
    texts = {name: text for name, text in TWO.items() if name != "eu.bootstrap.servers"}
    with pytest.raises(ConfigError, match=r"eu\.bootstrap\.servers is missing"):
        MirrorFile.of(texts)
