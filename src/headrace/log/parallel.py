"""Work on many logs side by side: opening and closing them is waiting for the disk."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def for_each(do: Callable[[Item], object], items: Sequence[Item], threads: int, name: str) -> None:
    """Call `do` with the items, side by side. The first error is raised when all are done."""
    threads = min(threads, len(items))
    if threads <= 1:
        for item in items:
            do(item)
        return
    with ThreadPoolExecutor(threads, name) as pool:
        for _ in pool.map(do, items):
            pass
