"""The options of the format kinesis: the connector's names, and errors that say what to write."""

import pickle

import pytest

from headrace.model.error import ConfigError
from headrace.spark.kinesis.option import read_sink_options, read_source_options

NAME = {"kinesis.streamName": "clicks"}


def test_defaults_are_the_connectors() -> None:
    options = read_source_options(NAME, streaming=True)

    assert options.starting is None
    assert options.max_records == 100_000
    assert options.fetch_interval_seconds == 0.2
    assert (options.connection.retries, options.connection.max_retry_ms) == (5, 10_000)
    assert not options.fail_on_data_loss


def test_a_batch_begins_at_the_oldest_record() -> None:
    assert read_source_options(NAME, streaming=False).starting == "TRIM_HORIZON"
    latest = NAME | {"kinesis.startingPosition": "LATEST"}
    with pytest.raises(ConfigError, match="cannot be LATEST in a batch query"):
        read_source_options(latest, streaming=False)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", "TRIM_HORIZON"),
        ("TRIM_HORIZON", "TRIM_HORIZON"),
        ("AT_TIMESTAMP 2023-08-30T19:00:05Z", "AT_TIMESTAMP 1693422005000"),
        ("at_timestamp 2023-08-30T19:00:05-08:00", "AT_TIMESTAMP 1693450805000"),
    ],
)
def test_a_starting_position_is_written_as_for_the_connector(text: str, position: str) -> None:
    options = NAME | {"kinesis.startingposition": text}

    assert read_source_options(options, streaming=True).starting == position


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        ("https://kinesis.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://kinesis-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("https://123456789012.data-kinesis.us-east-2.amazonaws.com", "us-east-1"),
        ("http://127.0.0.1:4567", "us-east-1"),
    ],
)
def test_the_region_is_inferred_from_the_endpoint(endpoint: str, region: str) -> None:
    options = read_source_options(NAME | {"kinesis.endpointUrl": endpoint}, streaming=True)

    assert options.connection.region == region


@pytest.mark.parametrize(
    ("option", "value", "match"),
    [
        ("kinesis.startingPositon", "LATEST", "did you mean kinesis.startingPosition"),
        ("kinesis.startingPosition", "NOW", "write LATEST, TRIM_HORIZON"),
        ("kinesis.startingPosition", "AT_TIMESTAMP 2023-08-30", "write the time as in"),
        ("kinesis.consumerType", "SubscribeToShard", "cannot be SubscribeToShard yet"),
        ("kinesis.stsRoleArn", "arn:aws:iam::1:role/r", "AWS_PROFILE"),
        ("kinesis.getRecords.numberOfRecordsPerFetch", "10001", "between 1 and 10000"),
        ("kinesis.endpointUrl", "127.0.0.1:4567", "https://host:port"),
        ("kinesis.awsAccessKeyId", "AKID", "or neither"),
        ("kafka.bootstrap.servers", "b:9092", "no option kafka.bootstrap.servers"),
    ],
)
def test_a_wrong_option_is_named_with_the_fix(option: str, value: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        read_source_options(NAME | {option: value}, streaming=True)


def test_the_stream_is_required() -> None:
    with pytest.raises(ConfigError, match=r"kinesis\.streamName"):
        read_sink_options({})


def test_what_the_connector_needs_for_its_own_store_is_ignored() -> None:
    ignored = {"kinesis.metadataCommitterType": "DYNAMODB", "kinesis.dynamodb.tableName": "t"}

    assert read_source_options(NAME | ignored, streaming=True).connection.stream == "clicks"


def test_the_key_is_in_no_text() -> None:
    key = {"kinesis.awsAccessKeyId": "AKIDTOP", "kinesis.awsSecretKey": "verysecret"}
    options = read_source_options(NAME | key, streaming=True)

    assert "verysecret" not in repr(options)
    assert "AKIDTOP" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_key_in_an_endpoint_is_refused_without_showing_it() -> None:
    wrong = NAME | {"kinesis.endpointUrl": "http://AKID:verysecret@host:1"}

    with pytest.raises(ConfigError) as error:
        read_source_options(wrong, streaming=True)
    assert "verysecret" not in str(error.value)
