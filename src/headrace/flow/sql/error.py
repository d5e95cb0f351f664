"""A mistake in a statement, shown at its place."""

import re

from headrace.flow.error import FlowError
from headrace.flow.execution.failure import failure_of

# Spark tells places so: in parse errors, and in those of names that it cannot resolve.
_SPARK_PLACE = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")


class SqlError(FlowError):
    """The message ends with the line of the statement and a mark below the place."""

    def __init__(self, why: str, script: str, at: int) -> None:
        at = min(max(at, 0), len(script))
        line = script.count("\n", 0, at) + 1
        start = script.rfind("\n", 0, at) + 1
        end = script.find("\n", at)
        shown = script[start : len(script) if end < 0 else end]
        self.why, self.line, self.column = why, line, at - start + 1
        # A tab in the line is as wide below it.
        mark = re.sub(r"[^\t]", " ", shown[: at - start]) + "^"
        super().__init__(f"line {line}, column {self.column}: {why}\n  {shown}\n  {mark}")


def spark_error(error: Exception, script: str, at: int) -> SqlError:
    """What Spark said about a statement that was handed to it in its place in the script.

    Args:
        at: where the statement begins, for errors without a place.
    """
    text = str(error).strip()
    why = re.split(r"\s*\(line \d", failure_of(error).why)[0].rstrip(" ;.")
    found = _SPARK_PLACE.search(text)
    if found is None:
        return SqlError(why, script, at)
    lines = script.split("\n")
    row = min(int(found[1]), len(lines)) - 1
    before = sum(len(each) + 1 for each in lines[:row])
    return SqlError(why, script, before + min(int(found[2]), len(lines[row])))
