"""A mistake in a statement, shown in its line of the script."""

import re

from headrace.flow.error import FlowError
from headrace.flow.execution.failure import failure_of

# The position in Spark's errors, of parsing and of names that it cannot resolve.
_SPARK_POSITION = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")


class SqlError(FlowError):
    """An error whose message ends with the line of the script and a mark below the mistake."""

    def __init__(self, why: str, script: str, at: int) -> None:
        at = min(max(at, 0), len(script))
        line = script.count("\n", 0, at) + 1
        start = script.rfind("\n", 0, at) + 1
        end = script.find("\n", at)
        shown = script[start : len(script) if end < 0 else end]
        self.why, self.line, self.column = why, line, at - start + 1
        # A tab in the line stays a tab, so that the mark is below its character.
        mark = re.sub(r"[^\t]", " ", shown[: at - start]) + "^"
        super().__init__(f"line {line}, column {self.column}: {why}\n  {shown}\n  {mark}")


def spark_error(error: Exception, script: str, at: int) -> SqlError:
    """Return Spark's error about a statement of a script; see rule 1 of `engine`.

    Args:
        at: where the statement begins, for errors without a position.
    """
    text = str(error).strip()
    why = re.split(r"\s*\(line \d", failure_of(error).why)[0].rstrip(" ;.")
    position = _SPARK_POSITION.search(text)
    if position is None:
        return SqlError(why, script, at)
    lines = script.split("\n")
    row = min(int(position[1]), len(lines)) - 1
    before = sum(len(each) + 1 for each in lines[:row])
    return SqlError(why, script, before + min(int(position[2]), len(lines[row])))
