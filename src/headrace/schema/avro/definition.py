"""Where a document defines its named types, for names that are used before their definition."""

from dataclasses import dataclass
from typing import Any, Final

from headrace.schema.limit import WorkLimit

_NAMED: Final = frozenset(["record", "error", "enum", "fixed"])
_INNER: Final = ("items", "values", "type")


@dataclass(frozen=True, slots=True)
class Definition:
    """The JSON object that defines a type, and the namespace around it."""

    value: dict[str, Any]
    namespace: str


def definitions_in(document: Any, names: WorkLimit) -> dict[str, Definition]:
    """Return the definitions of a document by full name, the first of each name.

    Raises:
        InvalidSchema: the names are longer together than the limit allows.
    """
    found: dict[str, Definition] = {}
    waiting: list[tuple[Any, str]] = [(document, "")]
    while waiting:
        value, namespace = waiting.pop()
        if isinstance(value, list):
            waiting += [(each, namespace) for each in reversed(value)]
        if not isinstance(value, dict):
            continue
        name, kind = value.get("name"), value.get("type")
        if isinstance(kind, str) and kind in _NAMED and isinstance(name, str):
            full = full_name(name, value.get("namespace"), namespace)
            names.spend(len(full))
            found.setdefault(full, Definition(value, namespace))
            namespace = full.rpartition(".")[0]
            fields = value.get("fields")
            if isinstance(fields, list):
                waiting += [(each, namespace) for each in reversed(fields)]
        else:
            waiting += [(value[key], namespace) for key in _INNER if key in value]
    return found


def full_name(name: str, own: Any, around: str) -> str:
    """Return a type's name with its namespace: its own, or that of the type around it."""
    space = own if isinstance(own, str) else around
    return name if "." in name or not space else f"{space}.{name}"
