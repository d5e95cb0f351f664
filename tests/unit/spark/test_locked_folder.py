"""Folders that killed processes left are removed, and nothing else is."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.spark.locked_folder import LockedFolder, remove_abandoned

_NAME = "hr-abc_1234"
# A process with a folder and a socket in it, which waits until it is killed. It goes into the
# folder, because the whole path may be too long for a socket.
_OWNER = """
import os, socket, sys
from headrace.spark.locked_folder import LockedFolder
folder = LockedFolder.make().path
os.chdir(folder)
server = socket.socket(socket.AF_UNIX)
server.bind(".worker.sock")
print(folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def owner(temporary_files: Path) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary_files)},
    )
    with process:
        yield process
        process.kill()


def folder_of(owner: "subprocess.Popen[str]") -> Path:
    assert owner.stdout is not None
    return Path(owner.stdout.readline().strip())


def add_socket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as patch, socket.socket(socket.AF_UNIX) as server:
        patch.chdir(folder)
        server.bind(".worker.sock")
    return folder / ".worker.sock"


def abandoned(parent: Path, monkeypatch: pytest.MonkeyPatch, name: str = _NAME) -> Path:
    """A folder as a killed process leaves it."""
    folder = parent / name
    folder.mkdir(mode=0o700)
    add_socket(folder, monkeypatch)
    return folder


def test_the_folder_of_a_killed_process_is_removed_and_not_before(
    owner: "subprocess.Popen[str]",
) -> None:
    folder = folder_of(owner)
    remove_abandoned()
    assert (folder / ".worker.sock").is_socket()

    owner.send_signal(signal.SIGKILL)
    owner.wait(60)
    remove_abandoned()

    assert not folder.exists()


def test_a_folder_is_kept_as_long_as_a_child_lives_that_has_its_lock(
    temporary_files: Path,
) -> None:
    folder = LockedFolder.make()
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=(folder._descriptor,),
    ):
        os.close(folder._descriptor)  # as if this process were gone
        remove_abandoned()
        assert Path(folder.path).is_dir()

    remove_abandoned()
    assert not Path(folder.path).exists()


def test_a_folder_of_this_process_is_kept_until_it_is_removed(temporary_files: Path) -> None:
    folder = LockedFolder.make()
    remove_abandoned()
    assert folder.exists()

    folder.remove()

    assert not Path(folder.path).exists()


def test_a_folder_that_was_replaced_is_not_ours_and_stays(temporary_files: Path) -> None:
    folder = LockedFolder.make()
    Path(folder.path).rmdir()
    Path(folder.path).mkdir()
    assert not folder.exists()

    folder.remove()

    assert Path(folder.path).is_dir()


def test_what_a_link_leads_to_is_kept(
    temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = abandoned(temporary_files, monkeypatch, "elsewhere")
    (temporary_files / _NAME).symlink_to(elsewhere)

    remove_abandoned()

    assert (elsewhere / ".worker.sock").is_socket()
    assert (temporary_files / _NAME).is_symlink()


def test_a_folder_of_another_user_is_kept(
    temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = abandoned(temporary_files, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        remove_abandoned()
    assert (folder / ".worker.sock").is_socket()

    remove_abandoned()
    assert not folder.exists()


def test_a_folder_that_others_may_enter_is_none_of_ours(
    temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = abandoned(temporary_files, monkeypatch)
    folder.chmod(0o770)

    remove_abandoned()

    assert (folder / ".worker.sock").is_socket()


@pytest.mark.parametrize("name", ["hr-", "hr-mine", "hr-abc_12345", "hr-ABC_1234", "x-abc_1234"])
def test_a_folder_with_another_kind_of_name_is_kept(
    name: str, temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = abandoned(temporary_files, monkeypatch, name)

    remove_abandoned()

    assert (folder / ".worker.sock").is_socket()


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_folder_that_holds_anything_but_sockets_is_kept_whole(
    kind: str, temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = abandoned(temporary_files, monkeypatch)
    if kind == "file":
        (folder / "notes").write_text("mine")
    elif kind == "folder":
        (folder / "notes").mkdir()
    else:
        (folder / "notes").symlink_to(".worker.sock")

    remove_abandoned()

    assert {each.name for each in folder.iterdir()} == {"notes", ".worker.sock"}


def test_a_file_and_a_pipe_of_that_name_do_no_harm(temporary_files: Path) -> None:
    (temporary_files / _NAME).write_text("mine")
    os.mkfifo(temporary_files / "hr-abc_1235")

    remove_abandoned()

    assert len(list(temporary_files.iterdir())) == 2


def test_a_new_folder_that_is_removed_before_it_is_locked_is_made_again(
    temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp
    made: list[str] = []

    def make_and_lose_the_first(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            remove_abandoned()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose_the_first)

    folder = LockedFolder.make()

    assert folder.exists()
    assert [folder.path] == made[1:]
    folder.remove()
