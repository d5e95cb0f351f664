"""`headrace agent`: collect events and move them, as a Flume configuration says."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event as Signal
from types import FrameType
from typing import Annotated

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.client.address import Address
from headrace.config.properties import Entry, read_properties
from headrace.ingest.agent.assembly import Assembly, assemble
from headrace.ingest.agent.drawing import draw as draw_plan
from headrace.ingest.agent.monitor import Monitor
from headrace.ingest.agent.supervisor import DEFAULT_POLL_SECONDS, Supervisor
from headrace.ingest.config.plan import Problem, Severity
from headrace.ingest.config.reader import agent_names, plan_agent
from headrace.model.error import ConfigError
from headrace.telemetry.logging import LEVELS, configure

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A properties file.")]
NameOption = Annotated[
    str | None,
    typer.Option("-n", "--name", metavar="AGENT", help="Which agent; the only one by default."),
]

_RUN = """
Examples:

  headrace agent run --conf flume.conf --name a1

  headrace agent run -f flume.conf -n a1 --monitor 127.0.0.1:34545    then curl .../metrics

  headrace agent run -f flume.conf -n a1 --live                       counters in the terminal
"""


@app.command(epilog=epilog(_RUN))
def run(
    conf: Annotated[
        Path, typer.Option("-f", "--conf", "--conf-file", metavar="FILE", help="What to run.")
    ],
    name: NameOption = None,
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload-conf", help="Take over changes of the file.")
    ] = True,
    poll_seconds: Annotated[
        float, typer.Option(min=0.1, help="How often to look for changes.")
    ] = DEFAULT_POLL_SECONDS,
    monitor: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve /metrics there.")
    ] = None,
    live: Annotated[bool, typer.Option(help="Show counters while it runs.")] = False,
    log_level: Annotated[str, typer.Option(help=", ".join(LEVELS) + ".")] = "info",
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Run an agent. Ctrl-C or SIGTERM stops it: sources first, then the rest."""
    if log_level not in LEVELS:
        raise ConfigError(f"--log-level cannot be {log_level!r}: write {', '.join(LEVELS)}")
    if log_format not in ("text", "json"):
        raise ConfigError(f"--log-format cannot be {log_format!r}: write text or json")
    configure(log_level, "json" if log_format == "json" else "text")
    # Where a configuration's own modules (`module:Class`) are looked for, as `python -m` does.
    sys.path.insert(0, str(Path.cwd()))
    chosen = _agent(read_properties(conf, os.environ), name, conf)
    stopping = Signal()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: _stop(stopping, number, frame))
    supervisor = Supervisor(conf, chosen)
    supervisor.start()
    print(f"Agent {chosen} runs", flush=True)
    with _watching(supervisor, monitor, live):
        supervisor.run(stopping, poll_seconds, reload)
    print("Stopped.", flush=True)


@app.command()
def check(file: FileArgument, name: NameOption = None) -> None:
    """Say everything that is wrong with a configuration, with line numbers; exit 1 on errors."""
    sys.path.insert(0, str(Path.cwd()))
    entries = read_properties(file, os.environ)
    failed = False
    for agent in [name] if name else _agents(entries, file):
        problems = _problems(entries, agent)
        failed |= any(each.severity is Severity.ERROR for each in problems)
        for problem in problems:
            where = f"{file}:{problem.line}" if problem.line else str(file)
            print(f"{where}: {problem.severity.value}: {problem.message}")
        if not problems:
            print(f"{file}: agent {agent} is fine")
    if failed:
        raise typer.Exit(1)


@app.command()
def draw(file: FileArgument, name: NameOption = None) -> None:
    """Show the flow: sources, what is between, channels, sinks."""
    entries = read_properties(file, os.environ)
    for agent in [name] if name else _agents(entries, file):
        plan, _ = plan_agent(entries, agent)
        print(draw_plan(plan))


def _problems(entries: dict[str, Entry], agent: str) -> list[Problem]:
    plan, problems = plan_agent(entries, agent)
    return sorted([*problems, *assemble(plan).problems], key=lambda each: each.line)


def _agents(entries: dict[str, Entry], path: Path) -> list[str]:
    names = agent_names(entries)
    if not names:
        raise ConfigError(f"{path} describes no agent: write lines such as a1.sources = r1")
    return names


def _agent(entries: dict[str, Entry], name: str | None, path: Path) -> str:
    if name is not None:
        return name
    names = _agents(entries, path)
    if len(names) > 1:
        raise ConfigError(f"{path} describes {', '.join(names)}: choose one with --name")
    return names[0]


def _stop(stopping: Signal, number: int, frame: FrameType | None) -> None:
    """The first signal stops cleanly; who sends another does not want to wait for that."""
    if stopping.is_set():
        print("Stopped at once.", flush=True)
        os._exit(128 + number)
    stopping.set()


@contextmanager
def _watching(supervisor: Supervisor, monitor: str | None, live: bool) -> Iterator[None]:
    """The monitor and the live table, as long as the agent runs."""

    def assembly() -> Assembly:
        assert supervisor.agent is not None
        return supervisor.agent.assembly

    with ExitStack() as stack:
        if monitor is not None:
            address = _listen_address(monitor)
            try:
                server = Monitor(address, assembly)
            except OSError as error:
                raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error
            server.start()
            stack.callback(server.stop)
            print(f"Metrics on http://{address.host}:{server.port}/metrics", flush=True)
        if live:
            from headrace.cli.agent_table import LiveTable

            stack.enter_context(LiveTable(assembly))
        yield


def _listen_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"--monitor cannot be {text!r}: write it as host:port")
    return Address(host.strip("[]") or "127.0.0.1", int(port))
