"""Waiting for many disks' worth of work at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")


def for_each(
    do: Callable[[_Item], object], items: Sequence[_Item], threads: int, name: str
) -> None:
    """Call `do` with the items, side by side. The first error is raised when all are done."""
    threads = min(threads, len(items))
    if threads <= 1:
        for item in items:
            do(item)
        return
    with ThreadPoolExecutor(threads, name) as pool:
        for _ in pool.map(do, items):
            pass
