"""The service model that botocore ships: operations, their shapes and limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

TARGET_PREFIX: Final = "Kinesis_20131202."


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape, with what the walk over a request needs at hand.

    Attributes:
        kind: structure, list, map, string, blob, integer, long, boolean or timestamp.
        members: of a structure, by name. Filled after all shapes are known: shapes may recur.
        element: of a list; of a map, its values.
        least, most: of a number its value, of everything else its length.
    """

    kind: str
    required: tuple[str, ...]
    members: dict[str, "Shape"] = field(default_factory=dict)
    element: "list[Shape]" = field(default_factory=list)
    key: "list[Shape]" = field(default_factory=list)
    least: int | None = None
    most: int | None = None
    pattern_text: str | None = None
    pattern: re.Pattern[str] | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """The input shape of every operation; None for an operation without input."""

    operations: Mapping[str, Shape | None]


@cache
def service_model() -> ServiceModel:
    """Read the newest model of Kinesis that botocore has."""
    from botocore.loaders import Loader

    raw: Mapping[str, Any] = Loader().load_service_model("kinesis", "service-2")
    shapes = {name: _bare(each) for name, each in raw["shapes"].items()}
    for name, each in raw["shapes"].items():
        shape = shapes[name]
        for member, reference in each.get("members", {}).items():
            shape.members[member] = shapes[reference["shape"]]
        for part, target in (("member", shape.element), ("value", shape.element)):
            if part in each:
                target.append(shapes[each[part]["shape"]])
        if "key" in each:
            shape.key.append(shapes[each["key"]["shape"]])
    operations = {
        name: shapes[each["input"]["shape"]] if "input" in each else None
        for name, each in raw["operations"].items()
    }
    return ServiceModel(operations)


def _bare(raw: Mapping[str, Any]) -> Shape:
    pattern = raw.get("pattern")
    return Shape(
        raw["type"],
        tuple(raw.get("required", ())),
        least=raw.get("min"),
        most=raw.get("max"),
        pattern_text=pattern,
        pattern=None if pattern is None else re.compile(pattern, re.ASCII),
        choices=tuple(raw.get("enum", ())),
    )
