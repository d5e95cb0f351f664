"""Two captures of one database, record by record: ours and Debezium's.

What is left out of the comparison is what docs/change-capture.md lists as different.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from testkit.sample.change_capture import CapturedRecord

# When an event was made, and by which program; the rest of a source block must be the same.
_TIMES: Final = ("ts_ms", "ts_us", "ts_ns")
_PROGRAM: Final = ("version", "name")
# The first reading happens at another moment, and only Debezium says which row was the first.
_READING: Final = ("snapshot", "txId", "lsn", "sequence", *_TIMES)
_OF_CONNECT: Final = "__debezium.context."


class Difference(NamedTuple):
    """Where two records differ, and how."""

    place: str
    ours: object
    theirs: object


def differences(
    ours: list[CapturedRecord],
    theirs: list[CapturedRecord],
    *,
    prefixes: tuple[str, str],
    keys: bool = True,
) -> list[Difference]:
    """Return how the records of a topic differ.

    Args:
        prefixes: the `topic.prefix` of each side, which schemas are named by.
        keys: False leaves out keys, and headers that hold keys.
    """
    # Debezium writes records without a key and a value after deletes in tables without a key.
    theirs = [each for each in theirs if each.key is not None or each.value is not None]
    left, right = (
        _ordered([_plain(each, prefix, keys) for each in side])
        for side, prefix in zip((ours, theirs), prefixes, strict=True)
    )
    found = [
        difference
        for at, (mine, other) in enumerate(zip(left, right, strict=False))
        for difference in _walk(str(at), mine, other)
    ]
    if len(left) != len(right):
        found.append(Difference("records", len(left), len(right)))
    return found


def _ordered(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort the rows of the first reading, which no order is promised of."""
    rows = [each for each in records if each["op"] == "r"]
    changes = [each for each in records if each["op"] != "r"]
    return sorted(rows, key=lambda each: json.dumps(each["value"]["payload"]["after"])) + changes


def _plain(record: CapturedRecord, prefix: str, keys: bool) -> dict[str, Any]:
    """Return a record without what differs for a reason, with `PREFIX` in the names of schemas."""
    text = json.dumps(
        {
            "op": None,
            "key": record.key if keys else None,
            "value": record.value,
            "headers": {
                name: json.loads(value)
                for name, value in record.headers.items()
                if keys and not name.startswith(_OF_CONNECT)
            },
        }
    )
    plain: dict[str, Any] = json.loads(text.replace(f'"{prefix}.', '"PREFIX.'))
    if record.value is not None:
        payload = plain["value"]["payload"]
        plain["op"] = payload["op"]
        # Debezium leaves it null, and Connect's converter writes its default, or null.
        payload["source"]["snapshot"] = payload["source"]["snapshot"] or "false"
        leave_out = (*_PROGRAM, *(_READING if payload["op"] == "r" else ()))
        for name in leave_out:
            del payload["source"][name]
        for name in _TIMES:
            del payload[name]
    return plain


def _walk(place: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            absent = "(absent)"
            yield from _walk(f"{place}.{name}", ours.get(name, absent), theirs.get(name, absent))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _walk(f"{place}[{at}]", mine, other)
    elif place.endswith(".source.sequence") and theirs.startswith("[null,"):
        return  # of the first transaction Debezium does not know the one before
    elif ours != theirs or type(ours) is not type(theirs):
        yield Difference(place, ours, theirs)
