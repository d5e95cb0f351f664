"""`headrace topic consume`: records of topics on standard output."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.progress import progress
from headrace.cli.terminal.registry_option import RegistryOption, connect_registry
from headrace.cli.terminal.stop import Stop
from headrace.cli.topic.schema_option import StrictOption, UseRegistryOption, parse_fields
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.cli.record.format import RecordFormat

EXAMPLES = r"""
Examples:

  headrace topic consume clicks                         all records, then new ones

  headrace topic consume clicks -o end                  only new records

  headrace topic consume clicks -o -3 -n 3              the last 3 of each partition, at most 3

  headrace topic consume clicks -o @-1h:end             the last hour, then stop

  headrace topic consume clicks -o 47:60 -p 2           offsets 47 to 59 of partition 2

  headrace topic consume clicks -f '%p %o %d{iso} %k=%v'

  headrace topic consume clicks -o :end --format json > clicks.json

  headrace topic consume clicks orders -g billing       as a member of a group that commits

  headrace topic consume clicks --use-schema-registry   keys and values as JSON, by their schemas

  headrace topic consume clicks --use-schema-registry=value --registry http://registry:8081

OFFSET is start, end, 47, +2 (two after the start), -3 (three before the end), @TIME, or two of them
with a colon between. TIME is 2026-07-01T12:00:00Z, seconds or milliseconds since 1970, or -90m.

FORMAT has %t topic, %p partition, %o offset, %k key, %v value, %h headers, %d time in milliseconds,
%d{iso}, %T %K %V lengths, %H number of headers, %x %y producer id and epoch, %i line number, %%,
{hex} or {base64} after %k and %v, and the escapes \n \t \r \0 \xHH. A line feed is added unless
there is one at the end; \c at the end adds none.

Ctrl-C stops it cleanly: exit code 0 if no end was given, 130 if records up to the end are missing.
"""


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="What to read.")],
    offset: Annotated[
        str, typer.Option("-o", "--offset", metavar="OFFSET", help="Where to begin (and end).")
    ] = "start",
    num: Annotated[
        int | None, typer.Option("-n", "--num", min=1, help="Stop after so many records.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", min=0, help="Only these partitions.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("-g", "--group", metavar="GROUP", help="Read as a member.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("-f", metavar="FORMAT", help="How to print a record.")
    ] = None,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Leave out aborted and open transactions.")
    ] = False,
    use_schema_registry: UseRegistryOption = None,
    fail_on_undecodable: StrictOption = False,
    registry: RegistryOption = None,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Print records."""
    # Imported here: they load numba and pyarrow, which other commands of this noun do not need.
    from headrace.cli.record.offset_spec import OffsetSpec, parse_range_spec, resolve
    from headrace.cli.topic.choice import chosen_partitions
    from headrace.cli.topic.consumption import Consumption
    from headrace.client.error import ClientError
    from headrace.client.group.member import GroupMember
    from headrace.model.clock import SystemClock
    from headrace.model.ids import TopicPartition

    if text is not None and format is OutputFormat.JSON:
        raise InvalidArgument("-f and --format json both choose how to print a record: give one")
    decoded = None if use_schema_registry is None else parse_fields(use_schema_registry)
    if fail_on_undecodable and decoded is None:
        raise InvalidArgument("--fail-on-undecodable needs --use-schema-registry")
    offsets = parse_range_spec(offset, SystemClock())
    if group is not None and (partition or offsets.past is not None):
        raise InvalidArgument("a group reads whole topics: leave out -p and the end in -o")

    with (
        connect(brokers, setting) as pool,
        _shown(format, text, decoded, fail_on_undecodable, registry, setting) as shown,
        Stop() as stop,
    ):

        def positions(
            spec: OffsetSpec, partitions: list[TopicPartition]
        ) -> Mapping[TopicPartition, int]:
            outcomes = resolve(pool, spec, partitions, read_committed=read_committed)
            for each, outcome in outcomes.items():
                if isinstance(outcome, ClientError):
                    raise ClientError(f"cannot read {each}: {outcome}")
            return {each: outcome for each, outcome in outcomes.items() if isinstance(outcome, int)}

        partitions = chosen_partitions(pool, topics, partition)
        past = {} if offsets.past is None else positions(offsets.past, partitions)
        first = {} if group is not None else positions(offsets.first, partitions)
        total = num if num is not None or not past else sum(past[p] - first[p] for p in partitions)
        bounded = num is not None or bool(past)
        with progress("consuming", total) as advance:
            consumption = Consumption(
                pool, stop, shown, read_committed, past, limit=num, advance=advance
            )
            try:
                if group is None:
                    follows = not (partition or past)
                    consumption.run(
                        first, (lambda: chosen_partitions(pool, topics)) if follows else None
                    )
                else:
                    member = GroupMember(pool, group, topics)
                    consumption.run_in_group(member, lambda new: positions(offsets.first, new))
            except KeyboardInterrupt:
                sys.stdout.flush()
                raise typer.Exit(130 if bounded else 0) from None


@contextmanager
def _shown(
    style: OutputFormat,
    text: str | None,
    decoded: list[str] | None,
    strict: bool,
    registry: str | None,
    setting: list[str] | None,
) -> "Iterator[RecordFormat]":
    """Return how records are printed. At the end, report what did not decode."""
    from headrace.cli.record.format import JsonFormat, TextFormat

    plain = TextFormat(text or "%v")
    if decoded is None:
        yield JsonFormat() if style is OutputFormat.JSON else plain
        return
    from headrace.cli.record.decoded_format import DecodedJsonFormat, DecodedTextFormat
    from headrace.cli.record.registry_decoder import RegistryDecoder
    from headrace.serde.deserializer import Deserializer

    with connect_registry(registry, setting) as client:
        client.ask("GET", "/schemas/types")  # a wrong address or login is reported at once
        decoder = RegistryDecoder(Deserializer(client), decoded, strict=strict)
        try:
            json = style is OutputFormat.JSON
            yield DecodedJsonFormat(decoder) if json else DecodedTextFormat(plain, decoder)
        finally:
            sys.stdout.flush()
            decoder.report()
