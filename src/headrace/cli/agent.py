"""`headrace agent`: collect and move events, as a Flume configuration says."""

import os
import shlex
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
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.log_choice import configure_logging
from headrace.cli.terminal.log_option import LogFormatOption, LogLevelOption
from headrace.config.properties import PropertyEntry, read_properties
from headrace.ingest.agent.assembly import Assembly, assemble
from headrace.ingest.agent.drawing import draw as draw_plan
from headrace.ingest.agent.monitor import Monitor
from headrace.ingest.agent.skeleton import KINDS, write_skeleton
from headrace.ingest.agent.supervisor import DEFAULT_POLL_SECONDS, AgentSupervisor
from headrace.ingest.config.plan import Problem, Severity
from headrace.ingest.config.reader import agent_names, plan_agent
from headrace.model.error import ConfigError

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
_NEW = """
Examples:

  headrace agent new source orders        orders/orders_source.py, its test, and agent.conf

  headrace agent new sink warehouse --folder components/warehouse
"""


@app.command(epilog=epilog(_RUN))
def run(
    conf: Annotated[
        Path, typer.Option("-f", "--conf", "--conf-file", metavar="FILE", help="The configuration.")
    ],
    name: NameOption = None,
    reload: Annotated[
        bool,
        typer.Option("--reload/--no-reload-conf", help="Apply changes of the file while it runs."),
    ] = True,
    poll_seconds: Annotated[
        float, typer.Option(min=0.1, help="How often to check the file for changes.")
    ] = DEFAULT_POLL_SECONDS,
    monitor: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve /metrics there.")
    ] = None,
    live: Annotated[bool, typer.Option(help="Show counters while it runs.")] = False,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
) -> None:
    """Run an agent. Ctrl-C or SIGTERM stops it: sources first, then sinks and channels."""
    configure_logging(log_level, log_format)
    # Where the modules of `type = module:Class` are imported from; last, so that no file there is
    # imported in place of a library.
    sys.path.append(str(Path.cwd()))
    agent = _agent(read_properties(conf, os.environ), name, conf)
    stopping = Signal()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: _stop(stopping, number, frame))
    supervisor = AgentSupervisor(conf, agent)
    supervisor.start()
    print(f"Agent {agent} runs", flush=True)
    with _watching(supervisor, monitor, live):
        supervisor.run(stopping, poll_seconds, reload)
    print("Stopped.", flush=True)


@app.command()
def check(file: FileArgument, name: NameOption = None) -> None:
    """Report every mistake in a configuration, with line numbers; exit code 1 on errors."""
    sys.path.append(str(Path.cwd()))
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
    """Show how events flow: sources, interceptors, channels, sinks."""
    entries = read_properties(file, os.environ)
    for agent in [name] if name else _agents(entries, file):
        plan, _ = plan_agent(entries, agent)
        print(draw_plan(plan))


@app.command(epilog=epilog(_NEW))
def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="source or sink.", show_default=False)
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called: orders.")],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write it; NAME by default.")
    ] = None,
) -> None:
    """Write a component of your own: a module, a test that passes, an agent that runs it."""
    if kind not in KINDS:
        raise ConfigError(f"there is no {kind!r} to write: choose {' or '.join(KINDS)}")
    target = folder or Path(name)
    for path in write_skeleton(kind, name, target):
        print(f"wrote {path}")
    print(f"Run it: cd {shlex.quote(str(target))} && headrace agent run --conf agent.conf")


def _problems(entries: dict[str, PropertyEntry], agent: str) -> list[Problem]:
    plan, problems = plan_agent(entries, agent)
    return sorted([*problems, *assemble(plan).problems], key=lambda each: each.line)


def _agents(entries: dict[str, PropertyEntry], path: Path) -> list[str]:
    names = agent_names(entries)
    if not names:
        raise ConfigError(f"{path} describes no agent: write lines such as a1.sources = r1")
    return names


def _agent(entries: dict[str, PropertyEntry], name: str | None, path: Path) -> str:
    if name is not None:
        return name
    names = _agents(entries, path)
    if len(names) > 1:
        raise ConfigError(f"{path} describes {', '.join(names)}: choose one with --name")
    return names[0]


def _stop(stopping: Signal, number: int, frame: FrameType | None) -> None:
    """Stop cleanly on the first signal, and at once on the second."""
    if stopping.is_set():
        print("Stopped at once.", flush=True)
        os._exit(128 + number)
    stopping.set()


@contextmanager
def _watching(supervisor: AgentSupervisor, monitor: str | None, live: bool) -> Iterator[None]:
    """Run the monitor and the live table inside the block."""

    def assembly() -> Assembly:
        assert supervisor.agent is not None
        return supervisor.agent.assembly

    with ExitStack() as stack:
        if monitor is not None:
            address = parse_listen_address(monitor, "--monitor")
            try:
                server = Monitor(address, assembly)
            except OSError as error:
                raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error
            server.start()
            stack.callback(server.stop)
            print(f"Metrics on http://{address.host}:{server.port}/metrics", flush=True)
        if live:
            from headrace.cli.agent_table import AgentTable

            stack.enter_context(AgentTable(assembly))
        yield
