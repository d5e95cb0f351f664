"""A schema's text, laid out for people and for comparison."""

import difflib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.schema.schema import SchemaText


def laid_out(schema: "SchemaText") -> str:
    """Return a text with a line per member; Protobuf has its lines already."""
    from headrace.schema.schema import SchemaType

    if schema.type is SchemaType.PROTOBUF:
        return schema.text.rstrip("\n")
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema.text


def difference(before: "SchemaText", after: "SchemaText", names: tuple[str, str]) -> list[str]:
    """Return the lines of a unified diff, none if the texts are equal.

    References are compared too, as comments behind the text.
    """
    old, new = (
        laid_out(each).splitlines()
        + [f"// {one.name} is version {one.version} of {one.subject}" for one in each.references]
        for each in (before, after)
    )
    return list(difflib.unified_diff(old, new, names[0], names[1], lineterm=""))
