"""The options of the source: names, checks and defaults of Spark's Kafka connector."""

import pickle
from pathlib import Path

import pytest

from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition
from headrace.spark.source.offset_limit import (
    EARLIEST,
    LATEST,
    EachPartition,
    EachTime,
    EveryPartition,
    EveryTime,
)
from headrace.spark.source.option import SOURCE_OPTIONS, SourceOptions

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "clicks"}
CLICKS = TopicPartition("clicks", 0)


def options(**given: str) -> SourceOptions:
    return SourceOptions.of({**NEEDED, **given})


def test_names_are_case_insensitive() -> None:
    found = options(STARTINGOFFSETS="earliest", MinPartitions="4", includeheaders="TRUE")

    assert found.starting == EveryPartition(EARLIEST)
    assert found.min_partitions == 4
    assert found.include_headers


def test_defaults_are_the_connectors_but_for_the_isolation() -> None:
    found = options()

    assert found.fail_on_data_loss
    assert not found.include_headers
    assert found.read_committed
    assert found.starting is None
    assert found.max_delay_ms == 15 * 60_000
    assert (found.fetch_retries, found.fetch_retry_ms) == (3, 10)
    assert found.client["default.api.timeout.ms"] == "120000"


def test_options_pickle() -> None:
    found = options(subscribe="a,b", maxOffsetsPerTrigger="10")

    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("subscribes", "subscribe"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("failOnDataloss_", "failOnDataLoss"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
    ],
)
def test_an_unknown_option_is_reported_with_the_right_spelling(written: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"no option {written.lower()}; did you mean {meant}\?"):
        options(**{written: "1"})


def test_an_option_like_no_other_is_reported_with_all_there_are() -> None:
    with pytest.raises(ConfigError, match=r"zzz; it has acceptNewTopicIds, .*valueSchema"):
        options(zzz="1")


def test_nothing_to_read_is_an_error() -> None:
    with pytest.raises(ConfigError, match="subscribe, subscribePattern, assign"):
        SourceOptions.of({"kafka.bootstrap.servers": "127.0.0.1:9092"})


def test_two_ways_to_choose_topics_are_an_error() -> None:
    with pytest.raises(ConfigError, match="not both subscribe and assign"):
        options(assign='{"clicks":[0]}')


def test_brokers_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        SourceOptions.of({"subscribe": "clicks"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.key.deserializer", "bytes"),
        ("kafka.value.deserializer", "valueFormat"),
        ("kafka.enable.auto.commit", "offsets"),
        ("kafka.interceptor.classes", "interceptors"),
    ],
)
def test_what_the_connector_refuses_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is not supported: .*{hint}"):
        options(**{name: "x"})


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("minPartitions", "0", "between 1"),
        ("minPartitions", "many", "a whole number"),
        ("maxRecordsPerPartition", "-1", "between 1"),
        ("maxOffsetsPerTrigger", "0", "between 1"),
        ("failOnDataLoss", "no", "true or false"),
        ("maxTriggerDelay", "5 fortnights", "15m"),
        ("startingOffsets", "begin", "earliest, latest or JSON"),
        ("startingOffsets", '{"clicks":{"0":"x"}}', r'"clicks":'),
        ("startingOffsets", '{"clicks":[0]}', r'"clicks":'),
        ("startingOffsetsByTimestampStrategy", "maybe", "error, latest"),
        ("startingTimestamp", "yesterday", "a whole number"),
        ("valueFormat", "xml", "raw, string, json, csv, avro"),
        ("valueMode", "IGNORE", "PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ("columnNameOfCorruptRecord", "Value", "no column of the source has"),
        ("subscribe", " , ", "names of topics"),
    ],
)
def test_a_wrong_value_is_reported_with_what_to_write(name: str, text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} cannot be .*{hint}"):
        options(**{name: text})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "needs a valueFormat"),
        ({"valueFormat": "string", "valueMode": "failfast"}, "with valueMode FAILFAST no row"),
        ({"valueFormat": "string", "valueMode": "DROPMALFORMED"}, "with valueMode DROPMALFORMED"),
        ({"valueFormat": "string", "deadLetterTopic": "dead"}, "with option deadLetterTopic"),
    ],
)
def test_a_corrupt_column_that_would_stay_empty_is_refused(
    given: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        options(columnNameOfCorruptRecord="_corrupt_record", **given)


def test_a_wrong_pattern_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"subscribePattern cannot be .*no regular expression"):
        SourceOptions.of(
            {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribePattern": "clicks("}
        )


def test_the_least_cannot_be_more_than_the_most() -> None:
    with pytest.raises(ConfigError, match=r"minOffsetsPerTrigger \(9\) is higher"):
        options(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5")


def test_one_time_wins_over_times_and_offsets() -> None:
    times = '{"clicks":{"0":5}}'

    every = options(
        startingTimestamp="7", startingOffsetsByTimestamp=times, startingOffsets="latest"
    )
    each = options(startingOffsetsByTimestamp=times, startingOffsets="latest")

    assert every.starting == EveryTime(7)
    assert each.starting == EachTime({CLICKS: 5})


def test_offsets_may_be_edges() -> None:
    found = options(startingOffsets='{"clicks":{"0":-2,"1":-1,"2":23}}')

    assert found.starting == EachPartition(
        {
            CLICKS: EARLIEST,
            TopicPartition("clicks", 1): LATEST,
            TopicPartition("clicks", 2): 23,
        }
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": '{"clicks":{"0":-1}}'}, r"latest \(-1\) for clicks-0"),
        ({"endingOffsets": '{"clicks":{"0":-2}}'}, r"earliest \(-2\) for clicks-0"),
        (
            {
                "startingOffsets": '{"clicks":{"0":9}}',
                "endingOffsets": '{"clicks":{"0":5}}',
            },
            "startingOffsets has 9 for clicks-0, which lies past the 5",
        ),
        (
            {
                "startingOffsets": '{"clicks":{"0":1}}',
                "endingOffsets": '{"clicks":{"0":5,"1":5}}',
            },
            "must name the same partitions: only one of them has clicks-1",
        ),
    ],
)
def test_a_batch_cannot_have_every_limit(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        options(**given).check_batch()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("endingOffsets", "latest"),
        ("endingTimestamp", "5"),
        ("endingOffsetsByTimestamp", '{"clicks":{"0":5}}'),
    ],
)
def test_a_stream_has_no_end(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="a stream does not end"):
        options(**{name: text}).check_stream()


def test_progress_goes_to_a_group_named_after_what_is_read() -> None:
    assert options().group == "spark-kafka-source-clicks"
    assert options(groupIdPrefix="shop").group == "shop-clicks"
    assert options(**{"kafka.group.id": "mine"}, groupIdPrefix="shop").group == "mine"
    assert options(commitProgress="false").group is None


def test_isolation_is_kafkas() -> None:
    assert options(**{"kafka.isolation.level": "read_committed"}).read_committed
    assert not options(**{"kafka.isolation.level": "read_uncommitted"}).read_committed
    with pytest.raises(ConfigError, match=r"kafka\.isolation\.level cannot be 'committed'"):
        options(**{"kafka.isolation.level": "committed"})


def test_every_option_is_documented_as_it_is_declared() -> None:
    page = (Path(__file__).parents[4] / "docs" / "spark.md").read_text()

    missing = [
        name for name, text in SOURCE_OPTIONS.items() if f"| `{name}` | {text} |" not in page
    ]

    assert missing == []
