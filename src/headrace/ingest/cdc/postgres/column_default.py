"""The default of a column in a schema, as Debezium has it.

A constant is its own default. Of a function, such as now() or nextval(...), only the server knows
the value: the schema then has what is zero or empty in the type. Of any other expression a text
type has the first text in it, or else its own text, bool has false, and other types have no
default.
"""

import re
from typing import Final

_CONSTANT: Final = re.compile(
    r"""\(?(?:'((?:[^']|'')*)'|(-?[0-9.]+|true|false))\)?(?:::[\w ."()\[\],]+)?"""
)
# A call, or a function that is written without one.
_FUNCTION: Final = re.compile(
    r"\(?\w+\(|(current_(date|time|timestamp)|local(time|timestamp))\b", re.ASCII | re.IGNORECASE
)
_CLOCK: Final = frozenset({"date", "time", "timestamp", "timestamptz"})
_QUOTED: Final = re.compile("'(.*?)'")
_TEXTS: Final = frozenset({"bpchar", "varchar", "text", "json", "jsonb", "xml"})
_EPOCH: Final = "1970-01-01 00:00:00"
# By type: the text of a value that stands for one that a function makes.
_STAND_INS: Final = {
    "bit": "0",
    "varbit": "0",
    "bool": "f",
    "bpchar": "",
    "varchar": "",
    "text": "",
    "numeric": "0",
    "float4": "0.0",
    "float8": "0.0",
    "int2": "0",
    "int4": "0",
    "int8": "0",
    "json": "{}",
    "jsonb": "{}",
    "xml": "",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": _EPOCH,
    "timestamptz": f"{_EPOCH}+00",
    "interval": "00:00:00",
}


def default_text(expression: str | None, type_name: str) -> str | None:
    """Return the text of a value of the type; None for an expression that has none.

    Args:
        expression: as `pg_get_expr` writes it; None without a default.

    >>> default_text("'it''s'::text", "text"), default_text("now()", "timestamptz")
    ("it's", '1970-01-01 00:00:00+00')
    """
    if expression is None:
        return None
    called = _FUNCTION.match(expression)
    if called is not None and (called[1] is None or type_name in _CLOCK):
        return _STAND_INS.get(type_name)
    text = constant(expression)
    if text is not None:
        return text
    if type_name in _TEXTS:
        first = _QUOTED.search(expression)
        return first[1] if first else expression
    return _STAND_INS["bool"] if type_name == "bool" else None


def constant(expression: str) -> str | None:
    """Return the text of a default that is a constant; None for any other expression.

    >>> constant("'it''s'::text"), constant("-3"), constant("now()")
    ("it's", '-3', None)
    """
    found = _CONSTANT.fullmatch(expression)
    if found is None:
        return None
    quoted, plain = found.groups()
    if plain is not None:
        return str(plain)
    return str(quoted).replace("''", "'")
