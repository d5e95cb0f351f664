"""One piece of upkeep, done in every log directory of a broker."""

from collections.abc import Callable, Iterable

from headrace.log.log_directory import LogDirectory
from headrace.model.error import HeadraceError


def for_each_directory(
    directories: Iterable[LogDirectory], upkeep: Callable[[LogDirectory], object]
) -> None:
    """Do the upkeep of one directory after the other. Each has a disk of its own: one that is full
    or fails does not stop the upkeep of the others.

    Raises:
        HeadraceError: the first one, after the last directory.
    """
    first: HeadraceError | None = None
    for directory in directories:
        try:
            upkeep(directory)
        except HeadraceError as error:
            first = first or error
    if first is not None:
        raise first
