"""The options of `topic consume` and `topic produce` for records with schemas, in rpk's words."""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from headrace.model.error import InvalidArgument

_USE: Final = "--use-schema-registry"
_BOTH: Final = "key,value"

UseRegistryOption = Annotated[
    str | None,
    typer.Option(
        _USE,
        metavar="[=key,value]",
        help="Decode keys, values or both by their schemas, into JSON; both without =.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option("--fail-on-undecodable", help="Stop at the first record that does not decode."),
]
SchemaIdOption = Annotated[
    str | None,
    typer.Option(
        "--schema-id",
        metavar="ID|topic",
        help="Encode values, which are JSON, with this schema, or the latest of TOPIC-value.",
    ),
]
SchemaKeyIdOption = Annotated[
    str | None,
    typer.Option("--schema-key-id", metavar="ID|topic", help="The same for keys, and TOPIC-key."),
]
SchemaTypeOption = Annotated[
    str | None,
    typer.Option(
        "--schema-type", metavar="MESSAGE", help="Which message of a Protobuf schema values are."
    ),
]
SchemaKeyTypeOption = Annotated[
    str | None,
    typer.Option("--schema-key-type", metavar="MESSAGE", help="The same for keys."),
]


class ConsumeCommand(TyperCommand):
    """Lets `--use-schema-registry` stand alone: its value follows an equals sign or is left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        given = [f"{_USE}={_BOTH}" if each == _USE else each for each in args[:end]]
        return super().parse_args(ctx, given + args[end:])


def parse_fields(text: str) -> list[str]:
    """Return what is to be decoded.

    >>> parse_fields("value")
    ['value']

    Raises:
        InvalidArgument: there is something else than `key` and `value`.
    """
    names = [each.strip() for each in text.split(",")]
    if not set(names) <= {"key", "value"}:
        raise InvalidArgument(
            f"{_USE}={text[:40]} is not written as {_USE}=key, =value or =key,value"
        )
    return names
