"""Messages between operators: pairs with a key, and messages as bytes."""

import json
import pickle
from collections.abc import Hashable
from typing import Any, NamedTuple

from headrace.flow.error import Unrecoverable


class KV(NamedTuple):
    """A message with a key. A stream writes the key of such a message as the record's key."""

    key: Any
    value: Any


def pickled(message: Any) -> bytes:
    """Return a message as it is carried between tasks and kept in the state.

    Raises:
        Unrecoverable: the message does not pickle.
    """
    try:
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except (TypeError, AttributeError, ValueError, RecursionError, pickle.PicklingError):
        return _pickled_by_value(message)


def unpickled(data: bytes) -> Any:
    """Return the message of `pickled`."""
    # Written by `pickled` of this very program, for its own tasks and checkpoint.
    return pickle.loads(data)  # noqa: S301


def key_bytes(key: Any) -> bytes:
    """Return the bytes of a key, by which a partition is chosen: equal keys have equal bytes.

    A text and bytes are as the serdes string and bytes write them, so that records with such keys
    are in the partition of the same number.

    Raises:
        TypeError: the key is none of JSON's values.
    """
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    try:
        return json.dumps(key, separators=(",", ":"), sort_keys=True).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{key!r} cannot be a key of partition_by: return a text, bytes, a number or a list of"
            f" these ({error})"
        ) from error


def state_key(key: Any, who: str) -> Hashable:
    """Return a key by which the state finds a message.

    Raises:
        TypeError: the key does not hash.
    """
    try:
        hash(key)
    except TypeError:
        raise TypeError(
            f"{key!r} cannot be a key of {who}: return a text, a number or a tuple of these"
        ) from None
    checked: Hashable = key
    return checked


def _pickled_by_value(message: Any) -> bytes:
    """Pickle a message of a class that workers have from the driver, not from a module."""
    from pyspark import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(message)  # type: ignore[no-untyped-call]
    except (TypeError, AttributeError, ValueError, RecursionError, pickle.PicklingError) as error:
        raise Unrecoverable(
            f"a message is a {type(message).__name__} that cannot be carried to another task or"
            f" kept in the state, because messages must pickle: {error}"
        ) from error
    return data
