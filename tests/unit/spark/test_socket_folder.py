"""The folder of the sockets between Spark's Java process and its Python workers."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headrace.spark import socket_folder
from headrace.spark.socket_folder import socket_settings

# A test's own folder has too long a name for a socket.
_SHORT = tempfile.gettempdir()
_FORKS = """
import os, sys
from headrace.spark.socket_folder import socket_settings
folder = socket_settings()["spark.python.unix.domain.socket.dir"]
if (child := os.fork()) == 0:
    sys.exit()
os.waitpid(child, 0)
print(folder, os.path.isdir(folder))
"""

_IS_KILLED = """
import os, signal
from headrace.spark.socket_folder import socket_settings
print(socket_settings()["spark.python.unix.domain.socket.dir"], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(socket_folder, "_folders", {})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_whose_sockets_would_have_too_long_names_is_not_used(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = temporary_folder / ("d" * 60)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))

    assert socket_settings() == {}


def test_a_folder_that_is_gone_is_made_again_and_one_that_cannot_be_made_is_not_needed(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Path(tempfile.mkdtemp(dir=_SHORT, prefix="t"))
    monkeypatch.setattr("tempfile.tempdir", str(short))
    try:
        first = socket_settings()["spark.python.unix.domain.socket.dir"]
        Path(first).rmdir()
        second = socket_settings()["spark.python.unix.domain.socket.dir"]
        assert Path(second).is_dir()
        assert socket_settings()["spark.python.unix.domain.socket.dir"] == second
        Path(second).rmdir()
        monkeypatch.setattr("tempfile.tempdir", str(short / "none"))
        assert socket_settings() == {}
    finally:
        shutil.rmtree(short)


def test_a_system_without_such_sockets_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("socket.AF_UNIX")

    assert socket_settings() == {}


def test_the_folder_is_removed_when_its_process_ends_and_not_when_a_child_of_it_does() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKS], capture_output=True, text=True, check=True, timeout=60
    )

    folder, was_there = done.stdout.split()
    assert was_there == "True"
    assert not os.path.exists(folder)  # noqa: PTH110, a name


def test_a_new_driver_removes_the_folder_of_one_that_was_killed(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Path(tempfile.mkdtemp(dir=_SHORT, prefix="t"))
    monkeypatch.setattr("tempfile.tempdir", str(short))
    try:
        killed = subprocess.run(
            [sys.executable, "-c", _IS_KILLED],
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ | {"TMPDIR": str(short)},
        )
        assert killed.returncode == -signal.SIGKILL
        assert Path(killed.stdout.strip()).is_dir()

        folder = socket_settings()["spark.python.unix.domain.socket.dir"]

        assert [str(each) for each in short.iterdir()] == [folder]
    finally:
        shutil.rmtree(short)
