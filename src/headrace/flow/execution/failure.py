"""What a flow died of, in one sentence and the user's own lines, out of what Spark says about it.

Spark tells a failure in sixty lines: the Python traceback of a worker, in the words of the Java
task that ran it, in those of the query. Everything here is text in and text out, so that it can be
tried on what Spark has said once.
"""

import os
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import headrace

_TRACEBACK = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'^  File "([^"]+)", line \d+')
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: ?(.*))?$")
_NOTE = re.compile(r"^in the component (\S+?)(?:, at (.+))?$")
# Where a traceback ends and Java begins, or what Spark adds about the query.
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
_OTHER_CHECKPOINT = "go on with the program that wrote it, or begin anew with another --checkpoint"
_OTHER_STATE = "the state in the checkpoint is of another shape: " + _OTHER_CHECKPOINT
# What Spark says of a checkpoint, by the words it is known by, and what a user can do about it.
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
        "the state in the checkpoint cannot be read: put back what is missing there, or begin anew"
        " with another --checkpoint"
    ),
    "Checksum error: file:": (
        "a file of the checkpoint is damaged ({file}): put back a good one, or begin anew with"
        " another --checkpoint"
    ),
    "exited unexpectedly": (
        "a Python process of Spark's ended in the middle of its work: it crashed, or the machine"
        " had no memory left for it"
    ),
}
_DAMAGED = re.compile(r"Checksum error: file:(\S+)")


@dataclass(frozen=True, slots=True)
class Failure:
    """What is to be told.

    Attributes:
        kind: the exception's class, without its module; empty if Spark itself has failed.
        why: a sentence.
        component: which of the flow's parts raised.
        at: the tuple that it raised for, as a place in a topic.
        lines: of the traceback, those of the user's own code.
    """

    why: str
    kind: str = ""
    component: str | None = None
    at: str | None = None
    lines: tuple[str, ...] = ()

    def sentence(self, flow: str) -> str:
        """What to write for the flow of this name; the user's lines stand below it."""
        where = f" in {self.component}" if self.component else ""
        where += f" at {self.at}" if self.at else ""
        return "\n".join([f"{flow} failed{where}: {self.why}", *self.lines])


def failure_of(told: object) -> Failure:
    """What an exception of PySpark's, or its text, comes down to.

    Args:
        told: the exception, or a whole traceback as Python prints it.
    """
    text = str(told).replace("\r\n", "\n")
    _, traceback, after = text.rpartition(_TRACEBACK)
    if not traceback:
        return Failure(_of_spark(text) or type(told).__name__)
    frames, rest = _split(after.split("\n"))
    kind, why, component, at = _raised(rest)
    lines: tuple[str, ...] = ()
    if not kind.startswith("headrace.") or not why:
        # Our own errors are sentences, and need no lines to be understood.
        lines = _users(frames)
        why = f"{kind}: {why}" if why else kind
    if component is not None and why.startswith(f"{component} "):
        component = None
    return Failure(why[:_MOST_CHARACTERS], kind.rpartition(".")[2], component, at, lines)


def note(component: str, at: str | None) -> str:
    """What to add to an exception (`add_note`), so that it says here where it came from."""
    return f"in the component {component}" + (f", at {at}" if at else "")


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """Of a traceback without its first line: the frames, and what was raised."""
    count = next((at for at, line in enumerate(lines) if not line.startswith("  ")), len(lines))
    rest = lines[count:]
    end = next((at for at, line in enumerate(rest) if _END.match(line)), len(rest))
    return lines[:count], rest[:end]


def _raised(lines: list[str]) -> tuple[str, str, str | None, str | None]:
    component = at = None
    kept = []
    for line in lines:
        noted = _NOTE.match(line)
        if noted:
            component, at = noted[1], noted[2]
        else:
            kept.append(line)
    first, *more = kept or [""]
    found = _RAISED.match(first)
    kind, why = (found[1], found[2] or "") if found else ("", first)
    return kind, "\n".join([why, *more]).strip(), component, at


def _users(frames: list[str]) -> tuple[str, ...]:
    """The lines of those frames that are neither ours, nor Spark's, nor Python's own."""
    found: list[list[str]] = []
    keep = False
    for line in frames:
        frame = _FRAME.match(line)
        if frame:
            keep = not _is_foreign(frame[1])
            if keep:
                found.append([])
        if keep:
            found[-1].append(line)
    return tuple(line for frame in found[-_MOST_FRAMES:] for line in frame)


def _is_foreign(path: str) -> bool:
    if path.startswith(_OWN_FOLDER) or _NOT_THE_USERS.search(path):
        return True
    return path.startswith(_PYTHON_FOLDER) and "-packages" not in path


def _of_spark(text: str) -> str:
    """Spark's own complaint, without the words around it."""
    for words, why in _OF_CHECKPOINT.items():
        if words in text:
            damaged = _DAMAGED.search(text)
            return why.format(file=damaged[1] if damaged else "")
    text = _WORDS_AROUND.sub("", text.strip())
    text = _CLASSES.sub("", text, count=1)
    said = _SPARK_END.split(text, maxsplit=1)[0].strip()
    return said.split("\n")[0].rstrip(" ;.")[:_MOST_CHARACTERS]
