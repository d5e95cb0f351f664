"""Archives of classes: made once, used by every later Java, and never in the way."""

import subprocess
from pathlib import Path

import pytest

from testkit.peer.class_archive import archive_options
from testkit.peer.java import Java, find_java
from testkit.peer.maven import Jars
from testkit.peer.peer import PeerMissing, require_peer

SAYS_ITS_VERSION = ("-version",)


@pytest.fixture
def java() -> Java:
    try:
        return find_java()
    except PeerMissing as missing:
        require_peer(str(missing))


def test_a_java_that_cannot_make_one_starts_without(java: Java, tmp_path: Path) -> None:
    assert archive_options(java, Jars(tmp_path / "jars"), ("-XX:+NoSuchOption",)) == ()
    assert list(tmp_path.iterdir()) == []


def test_an_archive_is_made_once_and_fits(java: Java, tmp_path: Path) -> None:
    jars = Jars(tmp_path / "jars")
    options = archive_options(java, jars, SAYS_ITS_VERSION)

    (archive,) = tmp_path.glob("*.jsa")
    made_at = archive.stat().st_mtime_ns
    archive_options.cache_clear()
    assert archive_options(java, jars, SAYS_ITS_VERSION) == options
    assert archive.stat().st_mtime_ns == made_at
    command = [str(java.path), *options, *SAYS_ITS_VERSION]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, "version" in done.stderr) == ("", True)
