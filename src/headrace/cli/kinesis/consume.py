"""`headrace kinesis consume`: the records of a stream, through the API, here or at AWS."""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.model.error import ConfigError

if TYPE_CHECKING:
    from headrace.spark.kinesis.aggregated_record import UserRecord
    from headrace.spark.kinesis.batch_fetcher import BatchFetcher

_EXAMPLES: Final = """
Examples:

  headrace kinesis consume clicks                              what comes from now on

  headrace kinesis consume clicks --from TRIM_HORIZON --until-now        all there is

  headrace kinesis consume clicks --from 'AT_TIMESTAMP 2026-08-30T19:00:05Z' -n 10

  headrace kinesis consume clicks --endpoint https://kinesis.eu-west-1.amazonaws.com      at AWS

  headrace kinesis consume clicks --format json | jq .data     a JSON object per line

Records that the Kinesis Producer Library packed into one are shown one by one, with their index
after the sequence number; --raw shows the record as it is in the stream. Keys come from the
environment and ~/.aws, as with the aws command; a gateway that accepts every signature needs none.
"""
EXAMPLES: Final = epilog(_EXAMPLES)
_HERE: Final = "http://127.0.0.1:4567"
_ENDPOINT: Final = "AWS_ENDPOINT_URL_KINESIS"
# What a batch may have: a terminal needs little at a time.
_BATCH_BYTES: Final = 4 * 1024 * 1024


def consume(
    stream: Annotated[str, typer.Argument(metavar="STREAM")],
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="POSITION", help="LATEST, TRIM_HORIZON or AT_TIMESTAMP and a time."
        ),
    ] = "LATEST",
    count: Annotated[
        int | None, typer.Option("-n", "--count", min=1, help="End after this many records.")
    ] = None,
    until_now: Annotated[
        bool, typer.Option("--until-now", help="End with what the stream has now.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Show aggregated records as they are in the stream.")
    ] = False,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"Where the API is: ${_ENDPOINT}, or {_HERE}."),
    ] = None,
    region: Annotated[str | None, typer.Option(help="The region; else that of the endpoint.")] = (
        None
    ),
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """Print records, in order per key, through splits and merges, until Ctrl-C."""
    left = count
    with_index = not raw
    for shard, record in _records(_fetcher(stream, start, endpoint, region), until_now=until_now):
        for each in _shown(record, with_index=with_index):
            print(_line(shard, record, each, style), flush=True)
            left = None if left is None else left - 1
            if left == 0:
                return


def _fetcher(stream: str, start: str, endpoint: str | None, region: str | None) -> "BatchFetcher":
    from headrace.spark.kinesis.batch_fetcher import BatchFetcher
    from headrace.spark.kinesis.client import kinesis_client
    from headrace.spark.kinesis.option import read_source_options

    url = endpoint or os.environ.get(_ENDPOINT) or _HERE
    options = {
        "kinesis.streamName": stream,
        "kinesis.endpointUrl": url,
        "kinesis.startingPosition": start,
        "kinesis.maxFetchBytes": str(_BATCH_BYTES),
        "kinesis.maxFetchTimePerShardSec": "1",
    }
    if region is not None:
        options["kinesis.region"] = region
    if "amazonaws" not in url and not _has_credentials():
        options |= {"kinesis.awsAccessKeyId": "any", "kinesis.awsSecretKey": "any"}
    parsed = read_source_options(options, streaming=True)
    return BatchFetcher(kinesis_client(parsed.connection), parsed)


def _has_credentials() -> bool:
    try:
        from botocore.session import get_session
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the command needs {error.name}: pip install 'headrace[kinesis]'"
        ) from error
    if "AWS_ACCESS_KEY_ID" in os.environ or "AWS_PROFILE" in os.environ:
        return True
    # The whole chain would ask the metadata service of a cloud machine, for seconds.
    return "default" in get_session().available_profiles


def _records(
    fetcher: "BatchFetcher", *, until_now: bool
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if until_now:
        fetcher.stop_at_now()
    position = fetcher.initial()
    while True:
        batch = fetcher.next_batch(position)
        for shard, records in batch.records.items():
            for record in records:
                yield shard, record
        if until_now and batch.end == position:
            return
        position = batch.end


def _shown(record: Mapping[str, Any], *, with_index: bool) -> "list[UserRecord]":
    from headrace.spark.kinesis.aggregated_record import UserRecord, user_records

    key = record.get("PartitionKey")
    return (
        user_records(record["Data"], key) if with_index else [UserRecord(key, None, record["Data"])]
    )


def _line(shard: str, record: Mapping[str, Any], shown: "UserRecord", style: OutputFormat) -> str:
    number = record["SequenceNumber"]
    if style is OutputFormat.TEXT:
        place = number if shown.index is None else f"{number}.{shown.index}"
        return f"{shard} {place} {_text(shown.partition_key or '-')} {_text(shown.data)}"
    fields = {
        "shard": shard,
        "sequence_number": number,
        "index": shown.index,
        "partition_key": shown.partition_key,
        "explicit_hash_key": shown.explicit_hash_key,
        "arrived": record["ApproximateArrivalTimestamp"].isoformat(),
        **_data(shown.data),
    }
    return json.dumps(fields, ensure_ascii=False)


def _data(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}


def _text(data: bytes | str) -> str:
    """Return data for a terminal: text as it is, everything that could control it escaped."""
    text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
