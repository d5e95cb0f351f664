"""A folder of jars is fetched once, and a fetch that was cut short does not count."""

from pathlib import Path

import pytest

from headrace.model.error import InvalidArgument
from testkit.peer.maven import cache_folder, fetch_jars, find_jars, pom
from testkit.peer.peer import PeerMissing

COORDINATES = ["org.example:tool:1.0"]

# Stands in for Maven: writes one jar to the given folder, and counts how often it was called.
FAKE_MVN = """\
#!/bin/sh
echo called >> {calls}
for argument in "$@"; do
    case "$argument" in -DoutputDirectory=*) echo jar > "${{argument#*=}}/tool-1.0.jar" ;; esac
done
exit {exit_code}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return install_maven(tmp_path, monkeypatch, exit_code=0)


def install_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int) -> Path:
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(FAKE_MVN.format(calls=calls, exit_code=exit_code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return calls


def test_a_fetched_folder_is_found_again(tmp_path: Path, calls: Path) -> None:
    jars = fetch_jars(COORDINATES, tmp_path / "jars")

    assert find_jars(tmp_path / "jars") == jars
    assert jars.classpath == f"{tmp_path}/jars/*"


def test_a_second_fetch_does_nothing(tmp_path: Path, calls: Path) -> None:
    fetch_jars(COORDINATES, tmp_path / "jars")
    fetch_jars(COORDINATES, tmp_path / "jars")

    assert calls.read_text().count("called") == 1


def test_a_folder_without_its_marker_is_fetched_again(tmp_path: Path, calls: Path) -> None:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "half.jar").write_text("cut short")
    assert find_jars(folder) is None

    fetch_jars(COORDINATES, folder)

    assert not (folder / "half.jar").exists()


def test_a_lost_jar_makes_the_folder_incomplete(tmp_path: Path, calls: Path) -> None:
    fetch_jars(COORDINATES, tmp_path / "jars")
    (tmp_path / "jars" / "tool-1.0.jar").unlink()

    assert find_jars(tmp_path / "jars") is None


def test_a_failed_fetch_leaves_the_folder_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_maven(tmp_path, monkeypatch, exit_code=1)

    with pytest.raises(PeerMissing, match="could not fetch"):
        fetch_jars(COORDINATES, tmp_path / "jars")
    assert find_jars(tmp_path / "jars") is None


def test_without_maven_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerMissing, match="apt-get install maven"):
        fetch_jars(COORDINATES, tmp_path / "jars")


def test_the_pom_depends_on_each_coordinate() -> None:
    text = pom(["org.example:tool:1.0", "org.example:other:2"])

    assert text.count("<dependency>") == 2
    assert "<artifactId>other</artifactId><version>2</version>" in text


@pytest.mark.parametrize("coordinate", ["", "tool", "org.example:tool", "a:b:c:d", "a::1"])
def test_a_coordinate_has_three_parts(coordinate: str) -> None:
    with pytest.raises(InvalidArgument, match="group:artifact:version"):
        pom([coordinate])


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/headrace")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "headrace"


def test_jars_can_be_taken_without_what_they_need_themselves() -> None:
    text = pom(COORDINATES, transitive=False)

    assert "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>" in text
    assert "<exclusion>" not in pom(COORDINATES)
