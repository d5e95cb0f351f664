"""Events that a sink can never deliver, in a file for a person to look at."""

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.ingest.event import Event


class DeadLetter(NamedTuple):
    """An event, and why it cannot be delivered."""

    event: Event
    reason: str


class DeadLetterFile:
    """A file of JSON lines: `reason`, `headers`, and `body`, or `body_base64` if the body is no
    text.

    Crash: lines are synced before the events leave the channel. Events that are delivered again
    after a crash are written again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, letters: Sequence[DeadLetter]) -> None:
        """Write events, and return when the disk has them.

        Raises:
            OSError: the file cannot be written.
        """
        lines = b"".join(json.dumps(_row(each)).encode() + b"\n" for each in letters)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Bodies may be private: only the owner may read the file.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(lines)
            file.flush()
            os.fdatasync(file.fileno())


def _row(letter: DeadLetter) -> dict[str, object]:
    row: dict[str, object] = {"reason": letter.reason, "headers": letter.event.headers}
    try:
        return {**row, "body": letter.event.body.decode()}
    except UnicodeDecodeError:
        return {**row, "body_base64": base64.b64encode(letter.event.body).decode("ascii")}
