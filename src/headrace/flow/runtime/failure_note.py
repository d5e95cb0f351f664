"""The note that a worker adds to an exception, so that the driver knows which component raised.

Spark hands the driver an exception as text. A note (`BaseException.add_note`) is a line of that
text: `execution.failure` finds it there with `read_note`.
"""

import re

_NOTE = re.compile(r"^in the component (\S+?)(?:, at (.+))?$")


def failure_note(component: str, at: str | None) -> str:
    """Return the note for an exception of a component.

    Args:
        at: the record that the component raised for, as `TupleBatch.place` describes it.
    """
    return f"in the component {component}" + (f", at {at}" if at else "")


def read_note(line: str) -> tuple[str, str | None] | None:
    """Return the component and the record of a note; None for any other line."""
    match = _NOTE.match(line)
    return None if match is None else (match[1], match[2])
