import pickle
from uuid import uuid4

import pytest

from headrace.model.error import ConfigError
from headrace.model.ids import topic_name_problem
from headrace.spark.sink.option import SinkGuarantee, SinkOptions, read_sink_options

_BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def _read(streaming: bool = True, **options: str) -> SinkOptions:
    spelled = {name.replace("__", "."): text for name, text in options.items()}
    return read_sink_options(_BROKERS | spelled, streaming=streaming)


def test_a_stream_is_exactly_once_and_a_batch_at_least_once() -> None:
    assert _read(streaming=True).guarantee is SinkGuarantee.EXACTLY_ONCE
    assert _read(streaming=False).guarantee is SinkGuarantee.AT_LEAST_ONCE


def test_names_are_found_under_any_spelling() -> None:
    options = _read(GUARANTEE="At-Least-Once", TOPIC="clicks", kafka__Compression__Type="zstd")

    assert options.guarantee is SinkGuarantee.AT_LEAST_ONCE
    assert (options.topic, options.codec) == ("clicks", "zstd")


def test_options_reach_the_tasks() -> None:
    options = _read(topic="clicks")

    assert pickle.loads(pickle.dumps(options)) == options


def test_a_batch_write_that_may_be_repeated_has_a_name_and_a_number() -> None:
    options = _read(streaming=False, guarantee="exactly-once", sinkId="orders", batchId="7")

    assert options.replay_id == ("orders", 7)


@pytest.mark.parametrize("text", ["0", "1"])
def test_fewer_acks_go_with_at_least_once(text: str) -> None:
    assert _read(guarantee="at-least-once", kafka__acks=text).acks == text


def test_all_replicas_have_two_names() -> None:
    assert _read(kafka__acks="-1").acks == _read(kafka__acks="all").acks == "all"


def test_settings_that_only_tune_javas_producer_are_taken() -> None:
    _read(kafka__linger__ms="5", kafka__retries="3", kafka__enable__idempotence="true")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guarante": "exactly-once"}, "did you mean guarantee"),
        ({"guarantee": "at-most-once"}, "write one of exactly-once, at-least-once"),
        ({"topic": "a/b"}, "topic"),
        ({"topic": ""}, "empty"),
        ({"sinkIdPrefix": "a b"}, "sinkIdPrefix"),
        ({"sinkIdPrefix": "a" * 201}, "at most 200"),
        ({"sinkId": "orders", "batchId": "1"}, "for batch writes"),
        ({"kafka__acks": "2"}, "write all, 1 or 0"),
        ({"kafka__acks": "1"}, "guarantee to at-least-once"),
        ({"kafka__compression__type": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"kafka__transaction__timeout__ms": "0"}, "transaction.timeout.ms"),
        ({"kafka__value__serializer": "x"}, "kafka.value.serializer is not supported"),
        ({"kafka__transactional__id": "x"}, "set sinkIdPrefix"),
        ({"kafka__bootstrap__servers": ""}, "kafka.bootstrap.servers"),
        ({"kafka__compresion__type": "zstd"}, "did you mean kafka.compression.type"),
    ],
)
def test_says_what_to_write_instead(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _read(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sinkId": "orders"}, "belong together"),
        ({"batchId": "1", "guarantee": "exactly-once"}, "belong together"),
        ({"sinkId": "orders", "batchId": "1"}, "guarantee to be exactly-once"),
        ({"sinkId": "orders", "batchId": "-1"}, "batchId"),
    ],
)
def test_a_batch_write_needs_both_its_name_and_its_number(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        _read(streaming=False, **options)


def test_prefix_and_name_and_a_querys_id_are_a_topic_name_together() -> None:
    exact = {"guarantee": "exactly-once", "batchId": "1", "sinkIdPrefix": "p" * 100}

    longest = _read(streaming=False, sinkId="s" * 111, **exact)

    assert longest.replay_id is not None
    assert topic_name_problem(f"{longest.prefix}-{longest.replay_id[0]}-{uuid4()}") is None
    with pytest.raises(ConfigError, match="at most 111 characters"):
        _read(streaming=False, sinkId="s" * 112, **exact)
