import subprocess
import sys
from pathlib import Path

import pytest

from headrace.process.stderr_redirect import stderr_to

COMPLAIN = [sys.executable, "-c", "import sys; print('trouble', file=sys.stderr)"]


def test_a_child_writes_its_errors_to_the_file(tmp_path: Path) -> None:
    with stderr_to(tmp_path / "log"):
        subprocess.run(COMPLAIN, check=True)

    assert (tmp_path / "log").read_text() == "trouble\n"


def test_our_own_errors_come_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with stderr_to(tmp_path / "log"):
        pass
    subprocess.run(COMPLAIN, check=True)

    assert capfd.readouterr().err.endswith("trouble\n")
