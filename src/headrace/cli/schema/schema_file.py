"""A schema in a file, as `--schema FILE` names it."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.model.error import ConfigError, InvalidArgument

if TYPE_CHECKING:
    from headrace.schema.schema import Reference, SchemaText

_STANDARD_INPUT: Final = "-"


class FileType(StrEnum):
    """The formats of schemas."""

    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"


_ENDINGS: Final = {
    ".avsc": FileType.AVRO,
    ".avro": FileType.AVRO,
    ".json": FileType.JSON,
    ".proto": FileType.PROTOBUF,
    ".protobuf": FileType.PROTOBUF,
}

SchemaFileOption = Annotated[
    str,
    typer.Option(
        "--schema", metavar="FILE", help="A file .avsc, .json or .proto; - for standard input."
    ),
]
OptionalSchemaFile = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="FILE", help="A file .avsc, .json or .proto; - for standard input."
    ),
]
TypeOption = Annotated[
    FileType | None, typer.Option("--type", help="The file's format, if its ending says another.")
]
ReferencesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--references",
        metavar="NAME:SUBJECT:VERSION,...",
        help="Schemas that the file uses, by the name that it has for them.",
    ),
]


def read_schema(file: str, kind: FileType | None, references: list[str] | None) -> "SchemaText":
    """Return the schema of a file.

    Raises:
        InvalidArgument: its type is unknown, or a reference is not written as one.
        ConfigError: the file cannot be read.
    """
    from headrace.schema.schema import SchemaText, SchemaType

    kind = kind or _ENDINGS.get(Path(file).suffix.lower())
    if kind is None:
        raise InvalidArgument(
            f"{file} does not end with .avsc, .json or .proto: add --type avro, json or protobuf"
        )
    try:
        text = _read(file).decode()
    except OSError as error:
        raise ConfigError(f"cannot read the schema {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"the schema {file} is no text (UTF-8)") from None
    return SchemaText(SchemaType(kind.value.upper()), text, parse_references(references))


def _read(file: str) -> bytes:
    from headrace.schema.limit import MAX_TOTAL_CHARACTERS

    # The registry refuses what is longer; a character has four bytes at most.
    most = 4 * MAX_TOTAL_CHARACTERS
    if file == _STANDARD_INPUT:
        data = sys.stdin.buffer.read(most + 1)
    else:
        with Path(file).open("rb") as source:
            data = source.read(most + 1)
    if len(data) > most:
        raise ConfigError(f"the schema {file} has more than {most} bytes")
    return data


def parse_references(texts: list[str] | None) -> "tuple[Reference, ...]":
    """Return references. Names and contexts may have colons in them.

    >>> parse_references(["shop.User:users-value:3"])
    (Reference(name='shop.User', subject='users-value', version=3),)

    Raises:
        InvalidArgument: one is not written as NAME:SUBJECT:VERSION.
    """
    from headrace.schema.schema import Reference

    found = []
    for text in [each.strip() for texts_ in texts or () for each in texts_.split(",")]:
        head, _, version = text.rpartition(":")
        # A subject may begin with its context, as in :.staging:users-value.
        name, colon, subject = head.partition("::.")
        if colon:
            subject = f":.{subject}"
        else:
            name, _, subject = head.rpartition(":")
        if not (name and subject and version.isascii() and version.isdigit()):
            raise InvalidArgument(
                f"--references {text} is not written as NAME:SUBJECT:VERSION, as in "
                "shop.User:users-value:1"
            )
        found.append(Reference(name, subject, int(version)))
    return tuple(found)
