"""Kafka's error codes, with the numbers and the `retriable` flag that clients know.

`ErrorCode.none` is 0 and `ErrorCode.unknown_server_error` is -1. It is an `IntEnum`: wherever a
hand-written message wants an error code, a plain number does too.
"""

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "error_code", "error_name"]


def error_code(value: int) -> ErrorCode:
    """Return the code for a number; a number from a newer Kafka becomes `unknown_server_error`."""
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.unknown_server_error


def error_name(value: int) -> str:
    """Return Kafka's name of a code; of one from a newer Kafka, the number.

    >>> error_name(6)
    'NOT_LEADER_OR_FOLLOWER'
    """
    try:
        return ErrorCode(value).name.upper()
    except ValueError:
        return str(value)
