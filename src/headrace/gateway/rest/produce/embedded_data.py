"""Keys and values inside requests and responses: binary as base64, text, JSON. Pure."""

import binascii
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from headrace.gateway.rest.error import RestError, bad_request
from headrace.gateway.rest.json_document import write_json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def from_base64(data: Any, what: str) -> bytes | None:
    """Return the bytes of a text in base64; None of null.

    Raises:
        RestError: it is no base64.
    """
    if data is None:
        return None
    if not isinstance(data, str):
        raise bad_request(f"{what} has to be a text in base64.")
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError:  # binascii's own is one
        raise bad_request(f"{what} is no valid base64.") from None


def to_base64(data: bytes | None) -> str | None:
    return None if data is None else binascii.b2a_base64(data, newline=False).decode()


def from_text(data: Any, what: str) -> bytes | None:
    """Return the bytes of a text; None of null."""
    if data is None:
        return None
    if not isinstance(data, str):
        raise bad_request(f"{what} has to be a text.")
    return data.encode()


def from_json(data: Any) -> bytes | None:
    """Return a value as JSON; None of null."""
    return None if data is None else write_json(data)


def to_milliseconds(text: Any) -> int | None:
    """Return the milliseconds since 1970 of a time such as `2021-02-05T19:14:42Z`.

    Raises:
        RestError: it is none, or before 1970.
    """
    if text is None:
        return None
    try:
        if not isinstance(text, str) or len(text) > 64:
            raise ValueError
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError
        milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1)
        if milliseconds < 0:
            raise ValueError
    except (ValueError, OverflowError):
        raise _bad_time() from None
    return milliseconds


@lru_cache(maxsize=256)  # the records of a batch have one time
def from_milliseconds(milliseconds: int) -> str | None:
    """Return a time as text; None for one that no calendar has."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _bad_time() -> RestError:
    return bad_request("timestamp has to be a time such as 2021-02-05T19:14:42Z.")
