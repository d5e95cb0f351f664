"""JSON of schemas: read with bounds, written compactly with every number as it was.

Python's float would turn 1.10 into 1.1 and 1e3 into 1000.0. A schema that was handed in comes back
with the numbers of its writer, so a decimal keeps its text.
"""

import json
from json.encoder import encode_basestring
from typing import Any, Final, NoReturn

from headrace.schema.error import InvalidSchema
from headrace.schema.limit import MAX_DEPTH

_TOO_DEEP: Final = f"the schema is nested more than {MAX_DEPTH} levels deep; name its inner types"


class Decimal(float):
    """A number with a point or an exponent, and the text it was written as."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> "Decimal":
        number = super().__new__(cls, text)
        if number in (float("inf"), float("-inf")):
            raise InvalidSchema(f"the number {text[:40]} is too large")
        number.text = text
        return number

    text: str


def load(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        InvalidSchema: the text is no JSON, or nested deeper than MAX_DEPTH.
    """
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidSchema(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"the schema is no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:
        raise InvalidSchema("the schema holds a number with too many digits") from None
    _check_depth(value)
    return value


def dump(value: Any, sort_keys: bool = False) -> str:
    """Return a value as JSON without spaces, keys in their order or sorted."""
    parts: list[str] = []
    _write(value, parts, sort_keys)
    return "".join(parts)


def _write(value: Any, parts: list[str], sort_keys: bool) -> None:
    if isinstance(value, str):
        parts.append(encode_basestring(value))
    elif isinstance(value, dict):
        opening = "{"
        for key in sorted(value) if sort_keys else value:
            parts.append(f"{opening}{encode_basestring(key)}:")
            _write(value[key], parts, sort_keys)
            opening = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list | tuple):
        opening = "["
        for each in value:
            parts.append(opening)
            _write(each, parts, sort_keys)
            opening = ","
        parts.append("]" if value else "[]")
    elif isinstance(value, Decimal):
        parts.append(value.text)
    else:
        parts.append(json.dumps(value))


def _refuse_constant(constant: str) -> NoReturn:
    raise InvalidSchema(f"the schema is no JSON: {constant} is not allowed, write it as a string")


def _check_depth(value: Any) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise InvalidSchema(_TOO_DEEP)
