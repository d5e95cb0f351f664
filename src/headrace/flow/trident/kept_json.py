"""What an aggregate keeps of a key, as JSON for a database. Unlike a pickle it runs no code."""

import base64
import datetime
import json
from typing import Any

from headrace.flow.error import Unrecoverable


def dump(value: Any) -> str:
    """Return a value as JSON.

    >>> dump([3, (1.5, 2), frozenset()])
    '[3,{"tuple":[1.5,2]},{"set":[]}]'

    Raises:
        Unrecoverable: the value has a type that this file cannot write.
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def load(text: str) -> Any:
    """Return the value that `dump` wrote."""
    return _value(json.loads(text))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(each) for each in value]}
    if isinstance(value, frozenset | set):
        return {"set": sorted((_plain(each) for each in value), key=str)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return {"at": value.isoformat()}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(each)] for key, each in value.items()]}
    raise Unrecoverable(
        f"a state cannot keep {type(value).__name__}: let the aggregator use numbers, texts, bytes,"
        " times, lists, tuples, sets and dictionaries"
    )


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    match kind:
        case "tuple":
            return tuple(_value(each) for each in inner)
        case "set":
            return frozenset(_value(each) for each in inner)
        case "bytes":
            return base64.b64decode(inner)
        case "at":
            return datetime.datetime.fromisoformat(inner)
        case _:
            return {_value(key): _value(each) for key, each in inner}
