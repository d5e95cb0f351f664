"""The flows that commands see: those of this machine, and those whose drivers run elsewhere.

The folder of runs has the first, the topic of runs the others. The brokers are asked only if some
are configured: a machine that has none has no flows in a cluster either, and should not wait.
"""

import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from headrace.cli.terminal.option import BROKERS_VARIABLE, client_settings
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.error import FlowError
from headrace.flow.monitoring.run_folder import Run, RunFolder
from headrace.flow.remote.remote_run import runs_elsewhere
from headrace.flow.remote.run_table import runs_named
from headrace.flow.remote.running_flow import LocalFlow, RemoteFlow, RunningFlow


def fields_of(flow: RunningFlow) -> dict[str, Any]:
    """Return what `list` and `describe` print of a flow."""
    run = flow.run
    if isinstance(run, Run):
        place: tuple[int | None, str | None, str] = run.pid, None, socket.gethostname()
        state, metrics = run.state, run.metrics
    else:
        # Its pid is one of another machine.
        place = None, run.application, run.host
        state, metrics = run.state(_now_ms()), None
    pid, application, host = place
    return {
        "name": run.name,
        "program": run.program,
        "pid": pid,
        "application": application,
        "host": host,
        "state": state,
        "age": age_text(run.started_ms),
        "master": run.master,
        "brokers": run.brokers,
        "checkpoint": run.checkpoint,
        "console": run.console,
        "metrics": metrics,
    }


def running_flows(brokers: str | None, pairs: list[str] | None) -> list[RunningFlow]:
    """Return the flows of this machine, then those of others that the brokers know of.

    What hinders to ask the brokers is a warning: the flows of this machine are there all the same.
    """
    local, remote, problem = _flows(brokers, pairs)
    if problem is not None:
        _warn(problem)
    return [*local, *remote]


def find_flow(name: str, brokers: str | None, pairs: list[str] | None) -> RunningFlow:
    """Return the flow with this name, pid or application.

    Raises:
        FlowError: there is none, or there are several.
    """
    if name.isdecimal():
        for each in (LocalFlow(RunFolder(), run) for run in RunFolder().runs()):
            if name == str(each.run.pid):
                return each  # brokers that do not answer must not delay this
    local, remote, problem = _flows(brokers, pairs)
    found = _only(name, local, remote)
    if found is not None:
        if problem is not None:
            _warn(problem)
        return found
    if problem is not None:
        raise FlowError(f"no flow called {name} runs on this machine, and {problem}")
    flows: list[RunningFlow] = [*local, *remote]
    names = ", ".join(dict.fromkeys(each.run.name for each in flows))
    there = f"there are {names}" if names else "none runs on this machine"
    raise FlowError(f"no flow called {name} runs: {there}")


def named_flow(name: str, brokers: str | None) -> RunningFlow | None:
    """Return the flow with this name, pid or application, if there is one.

    Raises:
        FlowError: there are several.
    """
    local, remote, problem = _flows(brokers, None)
    found = _only(name, local, remote)
    if found is None and problem is not None:
        _warn(problem)
    return found


def _only(
    name: str, local: Sequence[LocalFlow], remote: Sequence[RemoteFlow]
) -> RunningFlow | None:
    here = [each for each in local if name in (each.run.name, str(each.run.pid))]
    chosen = {each.instance for each in runs_named((each.run for each in remote), name, _now_ms())}
    elsewhere = [
        each for each in remote if each.run.instance in chosen and (each.alive or not here)
    ]
    named: list[RunningFlow] = [*here, *elsewhere]
    if len(named) > 1:
        ids = [f"pid {each.run.pid}" for each in here]
        ids += sorted(each.run.application for each in elsewhere)
        raise FlowError(
            f"several flows called {name} run: choose one by its pid or application,"
            f" {', '.join(ids)}"
        )
    return named[0] if named else None


def _flows(
    brokers: str | None, pairs: list[str] | None
) -> tuple[list[LocalFlow], list[RemoteFlow], str | None]:
    """Return the flows here and elsewhere, and why the latter are not known."""
    folder = RunFolder()
    local = [LocalFlow(folder, each) for each in folder.runs()]
    if not _is_configured(brokers, pairs):
        return local, [], None
    # Imported here: it loads the record kernels.
    from headrace.client.settings import ClientSettings
    from headrace.flow.remote.remote_control import COMMAND_LIMITS, RemoteControl

    control = RemoteControl(
        ClientSettings.of({**COMMAND_LIMITS, **client_settings(brokers, pairs)})
    )
    try:
        runs = control.runs()
    except FlowError as error:
        return local, [], str(error)
    elsewhere = runs_elsewhere(runs, [each.run for each in local])
    return local, [RemoteFlow(control, each) for each in elsewhere], None


def _is_configured(brokers: str | None, pairs: list[str] | None) -> bool:
    variables = (BROKERS_VARIABLE, CLIENT_CONFIG_VARIABLE)
    return bool(brokers or pairs or any(os.environ.get(each) for each in variables))


def _warn(problem: str) -> None:
    print(f"headrace: flows of other machines are not known: {problem}", file=sys.stderr)


def age_text(started_ms: int) -> str:
    seconds = max(0, _now_ms() - started_ms) // 1_000
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds % 60:02}s"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
