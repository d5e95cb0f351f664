"""What a broker loads before it serves, and how it is started from the command line."""

import json
import subprocess
import sys
from pathlib import Path

from testkit.process.command_line import run_headrace

_REPORT = """
import json, sys
from headrace.broker.server import Server

async def start(*_, **__):
    print(json.dumps(sorted(sys.modules)))
    sys.stdout.flush()
    raise SystemExit(0)

Server.start = start
from headrace.cli.main import main
main()
"""


def modules_of(*options: str) -> set[str]:
    """Return what `headrace up` has imported when it opens its data."""
    import_first = "from headrace.telemetry.light_structlog import load_structlog; load_structlog()"
    code = f"{import_first}\nimport sys; sys.argv = {['headrace', 'up', *options]!r}\n{_REPORT}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_broker_starts_without_heavy_libraries(tmp_path: Path) -> None:
    modules = modules_of("--data", str(tmp_path), "--listen", "127.0.0.1:0")

    assert "headrace.broker.server" in modules
    assert not modules & {"typer", "pydantic", "rich", "numba", "numpy", "pyarrow"}


def test_an_option_that_does_not_exist_is_reported_by_the_command_line_library() -> None:
    ended = run_headrace("up", "--lissten", "127.0.0.1:0")

    assert ended.code == 2
    assert "--lissten" in ended.err


def test_a_plain_command_line_with_a_wrong_setting_is_one_sentence() -> None:
    ended = run_headrace("up", "-X", "num.partitions")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "headrace: -X num.partitions has no value: write it as -X key=value\n"


def test_rich_can_be_imported_after_structlog() -> None:
    code = (
        "from headrace.telemetry.light_structlog import load_structlog\n"
        "load_structlog()\n"
        "import sys, structlog\n"
        "assert 'rich' not in sys.modules\n"
        "from rich.console import Console\n"
        "load_structlog()\n"
        "from headrace.telemetry.logging import configure\n"
        "configure()\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: structlog.get_logger('headrace').error('no', exc_info=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr
