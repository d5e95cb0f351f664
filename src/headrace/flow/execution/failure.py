"""Why a flow failed, in one sentence and the user's own lines of the traceback.

Spark reports a failure in sixty lines: the Python traceback of a worker, inside the error of the
Java task that ran it, inside the error of the query. Everything here maps text to text, so that
tests can use what Spark has reported once.
"""

import os
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import headrace
from headrace.flow.runtime.failure_note import read_note

_TRACEBACK = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'^  File "([^"]+)", line \d+')
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: ?(.*))?$")
# Where a traceback ends: Java's lines, or what Spark adds about the query.
_END = re.compile(r"^(?: ?SQLSTATE: |\s*at [\w.$]+[(/]|=== Streaming Query ===|JVM stacktrace:)")
_CLASSES = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ?")
_WORDS_AROUND = re.compile(
    r"^(?:\[STREAM_FAILED\] )?(?:Query \[id = [^]]*\] terminated with exception: )?"
)
_SPARK_END = re.compile(r"\s*SQLSTATE: |\n=== Streaming Query ===|\n\s*at [\w.$]+\(|\nJVM stack")
_OWN_FOLDER = str(Path(headrace.__file__).parent) + os.sep
_PYTHON_FOLDER = sysconfig.get_paths()["stdlib"]
_NOT_THE_USERS = re.compile(
    r"[/\\](?:site|dist)-packages[/\\](?:headrace|pyspark|py4j)[/\\]|[/\\]pyspark\.zip[/\\]"
    r"|[/\\]lib[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages)|^<frozen "
)
_MOST_FRAMES = 8
_MOST_CHARACTERS = 2_000
_OTHER_CHECKPOINT = (
    "use the program that wrote it, or start from the beginning with another --checkpoint"
)
_OTHER_STATE = "the state in the checkpoint is of another shape: " + _OTHER_CHECKPOINT
# What Spark reports, by a part of its message, and what a user can do about it.
_OF_CHECKPOINT = {
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH": (
        "the checkpoint is of a program with other steps that keep state: " + _OTHER_CHECKPOINT
    ),
    "MISSING_STATE_DIRECTORY": (
        "the state in the checkpoint is gone, or the program that wrote it kept none: "
        + _OTHER_CHECKPOINT
    ),
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": _OTHER_STATE,
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": _OTHER_STATE,
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION": _OTHER_STATE,
    "sources in the checkpoint offsets and now there are": (
        "the checkpoint is of a program with other spouts: " + _OTHER_CHECKPOINT
    ),
    "CANNOT_LOAD_STATE_STORE": (
        "the state in the checkpoint cannot be read: restore the missing files, or start from the"
        " beginning with another --checkpoint"
    ),
    "Checksum error: file:": (
        "a file of the checkpoint is damaged ({file}): restore a good copy, or start from the"
        " beginning with another --checkpoint"
    ),
    "exited unexpectedly": (
        "a Python process of Spark's ended in the middle of its work: it crashed, or the machine"
        " had no memory left for it"
    ),
}
_DAMAGED = re.compile(r"Checksum error: file:(\S+)")


@dataclass(frozen=True, slots=True)
class FlowFailure:
    """Why a flow failed.

    Attributes:
        why: a sentence.
        kind: the exception's class, without its module; empty if Spark itself has failed.
        component: the component that raised.
        at: the record that it raised for.
        lines: the lines of the traceback that are the user's own code.
    """

    why: str
    kind: str = ""
    component: str | None = None
    at: str | None = None
    lines: tuple[str, ...] = ()

    def sentence(self, flow: str) -> str:
        """Return the message for the flow of this name, with the user's lines below it."""
        where = f" in {self.component}" if self.component else ""
        where += f" at {self.at}" if self.at else ""
        return "\n".join([f"{flow} failed{where}: {self.why}", *self.lines])


def failure_of(error: object) -> FlowFailure:
    """Return the cause in a PySpark exception, or in its text.

    Args:
        error: the exception, or a whole traceback as Python prints it.
    """
    text = str(error).replace("\r\n", "\n")
    _, traceback, after = text.rpartition(_TRACEBACK)
    if not traceback:
        return FlowFailure(_of_spark(text) or type(error).__name__)
    frames, rest = _split(after.split("\n"))
    kind, why, component, at = _raised(rest)
    lines: tuple[str, ...] = ()
    if not kind.startswith("headrace.") or not why:
        # Headrace's own errors are sentences that need no traceback.
        lines = _users(frames)
        why = f"{kind}: {why}" if why else kind
    if component is not None and why.startswith(f"{component} "):
        component = None
    return FlowFailure(why[:_MOST_CHARACTERS], kind.rpartition(".")[2], component, at, lines)


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the frames of a traceback without its first line, and the exception's lines."""
    count = next((at for at, line in enumerate(lines) if not line.startswith("  ")), len(lines))
    rest = lines[count:]
    end = next((at for at, line in enumerate(rest) if _END.match(line)), len(rest))
    return lines[:count], rest[:end]


def _raised(lines: list[str]) -> tuple[str, str, str | None, str | None]:
    component = at = None
    kept = []
    for line in lines:
        note = read_note(line)
        if note is not None:
            component, at = note
        else:
            kept.append(line)
    first, *more = kept or [""]
    match = _RAISED.match(first)
    kind, why = (match[1], match[2] or "") if match else ("", first)
    return kind, "\n".join([why, *more]).strip(), component, at


def _users(frames: list[str]) -> tuple[str, ...]:
    """Return the lines of those frames that are not Headrace's, Spark's or Python's own."""
    users: list[list[str]] = []
    keep = False
    for line in frames:
        frame = _FRAME.match(line)
        if frame:
            keep = not _is_foreign(frame[1])
            if keep:
                users.append([])
        if keep:
            users[-1].append(line)
    return tuple(line for frame in users[-_MOST_FRAMES:] for line in frame)


def _is_foreign(path: str) -> bool:
    if path.startswith(_OWN_FOLDER) or _NOT_THE_USERS.search(path):
        return True
    return path.startswith(_PYTHON_FOLDER) and "-packages" not in path


def _of_spark(text: str) -> str:
    """Return Spark's own message, without what surrounds it."""
    for words, why in _OF_CHECKPOINT.items():
        if words in text:
            damaged = _DAMAGED.search(text)
            return why.format(file=damaged[1] if damaged else "")
    text = _WORDS_AROUND.sub("", text.strip())
    text = _CLASSES.sub("", text, count=1)
    message = _SPARK_END.split(text, maxsplit=1)[0].strip()
    return message.split("\n")[0].rstrip(" ;.")[:_MOST_CHARACTERS]
