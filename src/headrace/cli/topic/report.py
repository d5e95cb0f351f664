"""The table of `topic produce`, `export` and `import`: how many records of which partition."""

from collections.abc import Iterable
from typing import Protocol

from headrace.cli.terminal.output import print_rows
from headrace.cli.terminal.output_format import OutputFormat


class CopiedRecords(Protocol):
    """What was written to, or read from, one partition."""

    @property
    def records(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...


def print_copied(
    style: OutputFormat, topic: str, partitions: Iterable[tuple[int, CopiedRecords]]
) -> None:
    """Print a row per partition."""
    print_rows(
        style,
        ["topic", "partition", "records", "first_offset", "last_offset"],
        [
            (topic, index, copied.records, copied.first_offset, copied.last_offset)
            for index, copied in partitions
        ],
    )
