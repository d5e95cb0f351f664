"""The options of keys and values with schemas."""

import pickle

import pytest

from headrace.model.error import ConfigError
from headrace.spark.sink.option import read_sink_options
from headrace.spark.source.option import SourceOptions

KAFKA = {"kafka.bootstrap.servers": "127.0.0.1:1"}
SOURCE = {**KAFKA, "subscribe": "clicks"}
SINK = {**KAFKA, "topic": "clicks"}
URL = {"schema.registry.url": "http://me:hidden@127.0.0.1:8081"}
LOGIN = {
    "schema.registry.url": "http://127.0.0.1:8081",
    "schema.registry.basic.auth.user.info": "me:hidden",
}


def test_the_subject_follows_from_the_only_topic() -> None:
    found = SourceOptions.of({**SOURCE, **URL, "valueFormat": "avro", "keyFormat": "protobuf"})

    assert found.value_format.registry is not None
    assert found.key_format.registry is not None
    assert found.value_format.registry.subject == "clicks-value"
    assert found.key_format.registry.subject == "clicks-key"
    assert read_sink_options({**SINK, **URL, "valueFormat": "json"}, streaming=False).value


@pytest.mark.parametrize("registry", [URL, LOGIN])
def test_a_login_is_in_no_text(registry: dict[str, str]) -> None:
    source = SourceOptions.of({**SOURCE, **registry, "valueFormat": "avro"})
    sink = read_sink_options({**SINK, **registry, "valueFormat": "avro"}, streaming=True)

    assert "hidden" not in repr(source) + repr(sink)
    assert pickle.loads(pickle.dumps(sink)) == sink
    with pytest.raises(ConfigError) as raised:
        SourceOptions.of({**SOURCE, **registry, "valueFormat": "avro", "valueSchema": "x"})
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"valueFormat": "protobuf"}, "protobuf needs the option schema.registry.url"),
        ({"keyFormat": "avro"}, "keyFormat avro needs the option schema.registry.url"),
        ({"valueFormat": "avro", **URL, "valueSchema": "{}"}, "leave out the option valueSchema"),
        ({"valueFormat": "avro", **URL, "valueMessage": "M"}, "message of Protobuf"),
        ({"valueFormat": "avro", **URL, "valueVersion": "0"}, "between 1 and"),
        ({"valueFormat": "avro", **URL, "subscribe": "a,b"}, "valueSubject must name"),
        ({"valueSubject": "s"}, "valueSubject is for values with a schema in a registry"),
        ({"valueFormat": "avro", "schema.registry.url": "nowhere"}, "is no URL"),
        ({"schema.registry.basic.auth.user.info": "me:hidden"}, "schema.registry.url is missing"),
        ({"schema.registry.ur": "http://x"}, "did you mean schema.registry.url"),
        ({"deadLetterTopic": "dead"}, "deadLetterTopic needs a valueFormat"),
        ({"deadLetterTopic": "a b", "valueFormat": "string"}, "deadLetterTopic cannot be"),
        (
            {"deadLetterTopic": "dead", "valueFormat": "string", "valueMode": "FAILFAST"},
            "with valueMode FAILFAST no record reaches deadLetterTopic",
        ),
    ],
)
def test_wrong_options_of_a_source(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        SourceOptions.of({**SOURCE, **options})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"valueFormat": "avro"}, "valueFormat avro needs the option schema.registry.url"),
        ({"valueFormat": "csv", **URL}, "write one of avro, protobuf, json"),
        ({"valueSchemaRegister": "true"}, "valueSchemaRegister needs valueFormat"),
        ({"valueFormat": "avro", **URL, "valueSchema": "{}"}, "only with valueSchemaRegister"),
        (
            {"valueFormat": "protobuf", **URL, "valueSchemaRegister": "true"},
            "needs the option valueSchema",
        ),
        (
            {"valueFormat": "avro", **URL, "valueSchemaRegister": "true", "valueVersion": "1"},
            "exclude each other",
        ),
    ],
)
def test_wrong_options_of_a_sink(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_sink_options({**SINK, **options}, streaming=False)


def test_many_topics_need_a_subject() -> None:
    with pytest.raises(ConfigError, match="valueSubject must name"):
        read_sink_options({**KAFKA, **URL, "valueFormat": "avro"}, streaming=False)
