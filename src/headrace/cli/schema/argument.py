"""What the verbs of `headrace schema` take, and how their items end."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.terminal.output import OK, print_rows
from headrace.cli.terminal.output_format import OutputFormat
from headrace.cli.terminal.registry_option import connect_registry
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.serde.registry_admin import RegistryAdmin

GLOBAL = "{GLOBAL}"
"""How a table names what holds for subjects without a setting of their own, as rpk does."""

SubjectArgument = Annotated[str, typer.Argument(metavar="SUBJECT")]
SubjectsArgument = Annotated[list[str], typer.Argument(metavar="SUBJECT")]
OptionalSubjects = Annotated[list[str] | None, typer.Argument(metavar="SUBJECT")]
DeletedOption = Annotated[
    bool, typer.Option("--deleted", help="Also what is deleted, but not for good.")
]
PermanentOption = Annotated[
    bool,
    typer.Option("--permanent", help="For good; delete it without this first."),
]
GlobalOption = Annotated[
    bool, typer.Option("--global", help="Also what holds for subjects without their own.")
]


def parse_version(text: str) -> int | str:
    """Return a version as the registry takes it.

    >>> parse_version("3"), parse_version("latest")
    (3, 'latest')

    Raises:
        InvalidArgument: it is neither a positive number nor `latest`.
    """
    if text == "latest":
        return text
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise InvalidArgument(f"{text[:40]!r} is no version: write a number from 1 on, or latest")
    return int(text)


@contextmanager
def connect_admin(registry: str | None, settings: list[str] | None) -> "Iterator[RegistryAdmin]":
    """Connect to the registry of a command that needs no broker."""
    from headrace.serde.registry_admin import RegistryAdmin

    with connect_registry(registry, settings, alone=True) as client:
        yield RegistryAdmin(client)


def each_subject(
    subjects: Iterable[str | None], act: Callable[[str | None], Any]
) -> tuple[list[tuple[str | None, Any, str]], bool]:
    """Do something for each subject, also after one that the registry refused.

    Returns:
        Rows of subject, result and status, and whether one was refused.

    Raises:
        RegistryError: the login is wrong, or the registry itself is.
    """
    from headrace.serde.error import RegistryError

    rows: list[tuple[str | None, Any, str]] = []
    refused = False
    for subject in dict.fromkeys(subjects):
        try:
            rows.append((subject, act(subject), OK))
        except RegistryError as error:
            if error.status == 401 or error.code == error.status:
                raise
            refused = True
            rows.append((subject, None, str(error)))
    return rows, refused


def scopes(subjects: list[str] | None, everywhere: bool) -> list[str | None]:
    """Return the subjects whose settings are meant; None for those without their own."""
    chosen: list[str | None] = list(subjects or ())
    return [*chosen, None] if everywhere or not chosen else chosen


def print_scopes(
    format: OutputFormat, setting: str, rows: list[tuple[str | None, Any, str]], refused: bool
) -> None:
    """Print the rows of `each_subject`; exit with 1 if one was refused.

    Args:
        setting: the title of the middle column, such as mode.
    """
    named = [(subject or GLOBAL, value, status) for subject, value, status in rows]
    print_rows(format, ["subject", setting, "status"], named)
    if refused:
        raise typer.Exit(1)
