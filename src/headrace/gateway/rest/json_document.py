"""JSON in and out, within bounds. Pure.

Rule 1: what cannot be written again as JSON in UTF-8 is refused when it is read: NaN, infinite
numbers, halves of surrogate pairs. Numbers with thousands of digits and deep nesting are refused by
Python's own reader, in bounded time.
"""

import json
import math
import re
from typing import Any, Final, NoReturn

from headrace.gateway.rest.error import RestError, bad_request

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(body: bytes) -> Any:
    """Return the value of a document.

    Raises:
        RestError: it is no JSON, or holds something that JSON cannot express.
    """
    try:
        value = _DECODER.decode(body.decode())
        if b"\\" in body and _SURROGATE.search(body):
            write_json(value)
    except RecursionError:
        raise bad_request("The document is nested too deeply.") from None
    except UnicodeError:
        raise bad_request("The document is not valid UTF-8.") from None
    except ValueError as error:
        raise bad_request(f"The document is no valid JSON: {error}") from None
    return value


def read_object(body: bytes) -> dict[str, Any]:
    """Return a document that has to be a JSON object.

    Raises:
        RestError: it is none.
    """
    value = read_json(body)
    if not isinstance(value, dict):
        raise _no_object()
    return value


def write_json(value: Any) -> bytes:
    """Return a document in UTF-8, without spaces."""
    return _ENCODER.encode(value).encode()


def _no_object() -> RestError:
    return bad_request("The document is no JSON object.")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


# Made once: `json.loads` and `json.dumps` make one per call for options like these.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
