"""The parts of a response that refuse something: what is logged and counted of it."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from headrace.wire.error_code import error_name

_NAME_FIELDS = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "resource_name",
    "transactional_id",
    "feature",
    "user",
)
_PARTITION_FIELDS = ("partition_index", "partition")


class RefusedPart(NamedTuple):
    """One part of a request that was refused: which one, the code, and the reason if there is."""

    part: str
    code: int
    message: str | None = None

    def __str__(self) -> str:
        code = error_name(self.code)
        return " ".join(
            filter(None, (self.part, code, f"({self.message})" if self.message else ""))
        )


def refused_in(fields: Mapping[str, Any], most: int | None = None) -> Iterator[RefusedPart]:
    """Find every error code in the fields of a response, however deep it lies.

    >>> [str(each) for each in refused_in({"topics": [{"name": "a", "error_code": 3}]})]
    ['a UNKNOWN_TOPIC_OR_PARTITION']

    A part is named together with those around it:

    >>> partition = {"partition_index": 0, "error_code": 6}
    >>> topics = [{"name": "orders", "partitions": [partition]}]
    >>> [str(each) for each in refused_in({"topics": topics})]
    ['orders-0 NOT_LEADER_OR_FOLLOWER']

    Args:
        most: how many elements of lists are looked at, if not all.
    """
    return _walk((fields,), [-1 if most is None else most])


def _walk(path: tuple[Mapping[str, Any], ...], left: list[int]) -> Iterator[RefusedPart]:
    """Walk the last part of `path`; `left` counts down the elements to look at."""
    fields = path[-1]
    code = fields.get("error_code")
    if code:
        yield RefusedPart(_name_of(path), int(code), fields.get("error_message"))
    for value in fields.values():
        if isinstance(value, Mapping):
            yield from _walk((*path, value), left)
        elif isinstance(value, list | tuple):
            for each in value:
                if not isinstance(each, Mapping | bytes) or not left[0]:
                    break
                left[0] -= 1
                if isinstance(each, Mapping):  # what is packed already refuses nothing
                    yield from _walk((*path, each), left)


def _name_of(path: tuple[Mapping[str, Any], ...]) -> str:
    name = ""
    for fields in path:
        own = _first(fields, _NAME_FIELDS)
        name = f"{name} {own}" if name and own else name or own
        partition = _first(fields, _PARTITION_FIELDS)
        name = f"{name}-{partition}" if name and partition else name or partition
    return name


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    found = (fields.get(name) for name in names)
    return next((str(value) for value in found if value is not None and value != ""), "")
