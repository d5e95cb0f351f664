"""Paths into JSON values: `user.name`, `items[0].id`, with or without `$.` before them."""

import re
from typing import Any, Final

from headrace.model.error import InvalidArgument

_STEP: Final = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d{1,9})\]")
_MOST_LETTERS: Final = 500

MISSING: Final = object()


def parse_path(text: str) -> tuple[str | int, ...]:
    """Return the steps of a path.

    >>> parse_path("$.items[0].id")
    ('items', 0, 'id')

    Raises:
        InvalidArgument: the text is no path; the message shows how to write one.
    """
    body = text.strip().removeprefix("$").removeprefix(".")
    steps: list[str | int] = []
    at = 0
    while at < len(body) <= _MOST_LETTERS:
        found = _STEP.match(body, at)
        if found is None:
            break
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    if not steps or at < len(body):
        raise InvalidArgument(f"{text[:80]!r} is no path: write user.name or items[0].id")
    return tuple(steps)


def look_up(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at the path, or `MISSING`."""
    for step in path:
        if isinstance(step, int):
            known = isinstance(value, list) and step < len(value)
        else:
            known = isinstance(value, dict) and step in value
        if not known:
            return MISSING
        value = value[step]
    return value


def as_text(value: Any) -> str:
    """Return the text that a user types to mean this value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
