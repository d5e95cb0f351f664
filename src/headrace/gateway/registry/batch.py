"""Batches of writes: each part succeeds or fails by itself, and is answered in its place."""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.client.error import ClientError
from headrace.gateway.registry.error import RegistryError, store_failure
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.stored_schema import Json


def write_parts(
    parts: Sequence[Request], write: Callable[[Request], tuple[Any, int]]
) -> tuple[Json, int]:
    """Write the parts of a batch one after the other.

    Args:
        write: returns the answer to a part, and the offset of its last record.

    Returns:
        What is answered, with the offset of the last record; -1 if there is none.
    """
    results: list[Json] = []
    last = -1
    for part in parts:
        try:
            answer, offset = write(part)
        except RegistryError as error:
            results.append(_failure(error))
        except ClientError as error:
            results.append(_failure(store_failure(f"The cluster does not answer: {error}")))
        else:
            results.append({"result": answer})
            last = max(last, offset)
    return {"results": results}, last


def _failure(error: RegistryError) -> Json:
    return {"error": {"error_code": error.code, "message": error.message}}
