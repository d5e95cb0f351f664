"""`headrace doctor`: check whether this machine has what Headrace needs, and what to do if not."""

import importlib.metadata
import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace import __version__
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.output import print_json
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.model.error import HeadraceError

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace doctor

  headrace doctor --data /var/lib/headrace --port 9192

Exit code 1 when a problem must be solved before Headrace works; warnings do not count.
"""
_GIB = 1024**3
_ENOUGH_DISK_BYTES = 10 * _GIB
_LEAST_DISK_BYTES = 1 * _GIB
# A broker keeps a few thousand files of segments and indexes open.
_ENOUGH_FILES = 8192
_LEAST_FILES = 1024
_ENOUGH_MEMORY_BYTES = 4 * _GIB
_CONNECT_SECONDS = 1.0
_REGISTRY_TIMEOUT_MS = 5_000

# The packages of each part of Headrace, by the extra that installs them.
_EXTRAS = {
    "spark": ("pyspark", "pandas", "protobuf", "kazoo"),
    "console": ("starlette", "uvicorn"),
    "ingest": ("confluent-kafka", "fastavro", "thriftpy2"),
    "schemas": ("fastavro", "jsonschema", "protobuf"),
}


class CheckResult(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `advice` says what to do about it."""

    what: str
    verdict: CheckResult
    found: str
    advice: str = ""


@command.command(epilog=epilog(_EXAMPLES))
def doctor(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The data directory of a broker.")
    ] = Path("data"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="A broker's port.")] = 9092,
    console_port: Annotated[int, typer.Option(min=1, max=65535, help="The console's port.")] = 8080,
    format: FormatOption = OutputFormat.TEXT,
) -> None:
    """Check Java, ports, disk, file limits and versions, and print what to do."""
    findings = list(examine(data, {"broker": port, "console": console_port}))
    if format is OutputFormat.JSON:
        print_json([asdict(each) for each in findings])
    else:
        _print(findings)
    if any(each.verdict is CheckResult.PROBLEM for each in findings):
        raise typer.Exit(1)


def examine(data: Path, ports: dict[str, int]) -> Iterator[Finding]:
    """Run every check in turn."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _versions,
        _java,
        lambda: _ports(ports),
        lambda: _disk(data),
        _limits,
        _memory,
        _temporary,
        _registry,
    ]
    for check in checks:
        yield from check()


def _versions() -> Iterator[Finding]:
    python = platform.python_version()
    yield Finding("headrace", CheckResult.OK, f"{__version__} on Python {python}, {sys.platform}")
    for extra, packages in _EXTRAS.items():
        installed, missing = [], []
        for package in packages:
            try:
                installed.append(f"{package} {importlib.metadata.version(package)}")
            except importlib.metadata.PackageNotFoundError:
                missing.append(package)
        if missing:
            advice = f"for that part: pip install 'headrace[{extra}]'"
            yield Finding(
                extra, CheckResult.WARNING, f"not installed: {', '.join(missing)}", advice
            )
        else:
            yield Finding(extra, CheckResult.OK, ", ".join(installed))


def _java() -> Iterator[Finding]:
    from headrace.process.java import find_java

    try:
        java = find_java()
    except HeadraceError as error:
        found, _, advice = str(error).partition("; ")
        yield Finding("java", CheckResult.PROBLEM, found, f"{advice} (Spark and ZooKeeper need it)")
    else:
        yield Finding("java", CheckResult.OK, f"Java {java.major} at {java.path}")


def _registry() -> Iterator[Finding]:
    """Ask the schema registry, if the environment names one."""
    from headrace.cli.terminal.registry_option import REGISTRY_VARIABLE, registry_settings

    if not os.environ.get(REGISTRY_VARIABLE):
        return
    from headrace.serde.registry_client import RegistryClient

    what = "schema registry"
    try:
        settings = replace(registry_settings(None, None), timeout_ms=_REGISTRY_TIMEOUT_MS)
        with RegistryClient(settings) as client:
            client.ask("GET", "/schemas/types")
    except HeadraceError as error:
        advice = f"correct ${REGISTRY_VARIABLE}, or start one there: headrace registry"
        yield Finding(what, CheckResult.WARNING, str(error), advice)
    else:
        yield Finding(what, CheckResult.OK, f"answers at {', '.join(settings.urls)}")


def _ports(ports: dict[str, int]) -> Iterator[Finding]:
    for name, port in ports.items():
        what = f"port {port}"
        try:
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError as error:
            if _is_in_use(port):
                option = "--listen 127.0.0.1:PORT"
                yield Finding(
                    what,
                    CheckResult.WARNING,
                    f"in use already (needed for the {name})",
                    f"if it is not Headrace, start on another port with {option}",
                )
            else:
                yield Finding(
                    what, CheckResult.PROBLEM, f"cannot be bound: {error}", "choose another port"
                )
        else:
            yield Finding(what, CheckResult.OK, f"free for the {name}")


def _is_in_use(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _disk(data: Path) -> Iterator[Finding]:
    folder = data.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    what = "disk"
    found = f"{free / _GIB:.1f} GiB free for {data.absolute()}"
    if not os.access(folder, os.W_OK):
        advice = "choose another folder with --data, or change its owner"
        yield Finding(what, CheckResult.PROBLEM, f"{folder} cannot be written to", advice)
    elif free < _LEAST_DISK_BYTES:
        yield Finding(
            what, CheckResult.PROBLEM, found, "free some space, or choose another disk with --data"
        )
    elif free < _ENOUGH_DISK_BYTES:
        yield Finding(
            what, CheckResult.WARNING, found, "set log.retention.bytes, or free some space"
        )
    else:
        yield Finding(what, CheckResult.OK, found)


def _limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    found = f"{soft:,} open files allowed (at most {most})"
    advice = f"ulimit -n {_ENOUGH_FILES}, or LimitNOFILE= in the service's unit"
    if soft == resource.RLIM_INFINITY or soft >= _ENOUGH_FILES:
        yield Finding("file limit", CheckResult.OK, found)
    elif soft >= _LEAST_FILES:
        yield Finding("file limit", CheckResult.WARNING, found, advice)
    else:
        yield Finding("file limit", CheckResult.PROBLEM, found, advice)


def _memory() -> Iterator[Finding]:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = f"{total / _GIB:.1f} GiB, {os.cpu_count()} cores"
    if total < _ENOUGH_MEMORY_BYTES:
        advice = "enough for a broker; give Spark less with spark.driver.memory=1g"
        yield Finding("memory", CheckResult.WARNING, found, advice)
    else:
        yield Finding("memory", CheckResult.OK, found)


def _temporary() -> Iterator[Finding]:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 4096)
    except OSError as error:
        advice = "Spark and compiled code need it: set TMPDIR to a folder with free space"
        yield Finding("temporary files", CheckResult.PROBLEM, str(error), advice)
    else:
        yield Finding("temporary files", CheckResult.OK, tempfile.gettempdir())


def _print(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    marks = {
        CheckResult.OK: ("ok", "green"),
        CheckResult.WARNING: ("warn", "yellow"),
        CheckResult.PROBLEM: ("FAIL", "bold red"),
    }
    width = max(len(each.what) for each in findings)
    for each in findings:
        mark, style = marks[each.verdict]
        line = Text.assemble((f"{mark:<5}", style), f"{each.what:<{width}}  {each.found}")
        console.print(line)
        if each.advice:
            console.print(Text(f"{'':<5}{'':<{width}}  → {each.advice}", style="dim"))
    problems = sum(each.verdict is CheckResult.PROBLEM for each in findings)
    warnings = sum(each.verdict is CheckResult.WARNING for each in findings)
    console.print(
        Text(
            f"{problems} problems, {warnings} warnings." if problems or warnings else "No problems."
        )
    )
