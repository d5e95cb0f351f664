"""The connector of the same version if it can be had, and else the jars that are known to work."""

from pathlib import Path

import pytest

from testkit.peer.connector_jars import CONNECTOR_JARS
from testkit.peer.peer import PeerMissing

# Stands in for Maven: has everything but one version of the connector.
PICKY_MVN = """\
#!/bin/sh
for argument in "$@"; do
    case "$argument" in
        *pom.xml) pom=$argument ;;
        -DoutputDirectory=*) folder=${argument#*=} ;;
    esac
done
grep -q 'MISSING' "$pom" && exit 1
echo jar > "$folder/spark-sql-kafka-0-10_2.13-4.2.0.jar"
"""


@pytest.fixture(autouse=True)
def picky_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(
        PICKY_MVN.replace("MISSING", "spark-sql-kafka-0-10_2.13</artifactId><version>4.3")
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_what_was_not_fetched_says_how_to_get_it() -> None:
    with pytest.raises(PeerMissing, match="run tools/setup-peers"):
        CONNECTOR_JARS.find()


def test_jars_known_to_work_stand_in_for_the_same_version() -> None:
    fetched = CONNECTOR_JARS.fetch()

    assert CONNECTOR_JARS.find() == fetched
    assert [path.name for path in fetched.folder.glob("*.jar")] == [
        "spark-sql-kafka-0-10_2.13-4.2.0.jar"
    ]
