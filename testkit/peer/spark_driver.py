"""Runs a Spark program in a process of its own: with another master, with other jars."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.model.error import HeadraceError
from headrace.process.die_with_parent import die_with_parent
from testkit.peer.spark_session import spark_environment

_RUN_SECONDS = 240.0
_OUTPUT_LINES = 60


class DriverFailed(HeadraceError):
    """The program did not end well; the message ends with the last lines that it wrote."""


def run_driver(
    script: Path, task: Mapping[str, Any], *, timeout_seconds: float = _RUN_SECONDS
) -> Any:
    """Run `script` with `task` as JSON for its only argument, and return its result.

    The result is the last line of its standard output, as JSON; Spark's own output goes to the
    standard error. The script calls `driver_task` and `answer`.

    Raises:
        DriverFailed: it ended with an error, too late, or without a result.
    """
    try:
        done = subprocess.run(
            [sys.executable, str(script), json.dumps(task)],
            env={**os.environ, **spark_environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            preexec_fn=die_with_parent,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="replace")
        raise _failed(script, f"did not end in {timeout_seconds:g} s", said) from None
    if done.returncode != 0:
        raise _failed(script, f"ended with {done.returncode}", done.stdout + done.stderr)
    lines = done.stdout.splitlines()
    if not lines:
        raise _failed(script, "gave no answer", done.stderr)
    return json.loads(lines[-1])


def driver_task() -> Any:
    """Return the task that `run_driver` passed to this program."""
    return json.loads(sys.argv[1])


def answer(result: Any) -> None:
    """Pass the result to `run_driver`; once, at the end."""
    sys.stdout.write("\n" + json.dumps(result) + "\n")
    sys.stdout.flush()


def _failed(script: Path, what: str, output: str) -> DriverFailed:
    lines = output.splitlines()[-_OUTPUT_LINES:]
    return DriverFailed(f"{script.name} {what}:\n" + "\n".join(lines))
