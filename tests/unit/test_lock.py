"""requirements.lock holds everything that pyproject.toml asks for, in versions it allows."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
# One entry for each package and version: some have another version for a newer Python.
ENTRIES = re.split(r"\n(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text())[1:]
LOCKED: dict[str, set[Version]] = {}
for entry in ENTRIES:
    name, version = re.split("==|[ ;]", entry)[:2]
    LOCKED.setdefault(canonicalize_name(name), set()).add(Version(version))


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    texts = list(project["project"]["dependencies"])
    for extra in project["project"]["optional-dependencies"].values():
        texts += extra
    texts += project["build-system"]["requires"]
    found = [Requirement(text) for text in texts]
    return [each for each in found if each.name != "headrace"]


def test_every_requirement_is_locked_in_a_version_that_it_allows() -> None:
    asked = requirements()
    assert len(asked) > 30

    missing = [str(each) for each in asked if canonicalize_name(each.name) not in LOCKED]
    assert missing == [], "run `make lock`"
    outside = [
        str(each)
        for each in asked
        if not all(version in each.specifier for version in LOCKED[canonicalize_name(each.name)])
    ]
    assert outside == [], "run `make lock`"


def test_every_locked_package_has_a_hash() -> None:
    assert len(LOCKED) > 80
    assert [entry.split("=")[0] for entry in ENTRIES if "--hash=sha256:" not in entry] == []
