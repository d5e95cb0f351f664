"""A package that offers public names keeps its promise: one import, light and documented."""

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src"
# The page that documents a package's names, if its docstring does not; its subpackages share it.
PAGES = {
    "headrace.client": "docs/client.md",
    "headrace.spark": "docs/spark.md",
    "headrace.flow": "docs/flow.md",
    "headrace.ingest": "docs/agent.md",
    "headrace.audit": "docs/audit.md",
}
# Libraries that cost a noticeable part of a second to import.
HEAVY = {"numba", "numpy", "pandas", "pyarrow", "pyspark", "kio", "structlog", "typer", "starlette"}


def doors() -> list[str]:
    """The packages whose `__init__` names public names."""
    found = []
    for file in sorted((SOURCE / "headrace").rglob("__init__.py")):
        body = ast.parse(file.read_text()).body
        targets = [each for node in body if isinstance(node, ast.Assign) for each in node.targets]
        if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
            found.append(".".join(file.parent.relative_to(SOURCE).parts))
    return found


def public_names() -> list[tuple[str, str]]:
    return [(door, name) for door in doors() for name in importlib.import_module(door).__all__]


def test_the_doors_are_found() -> None:
    assert {"headrace.client", "headrace.spark"} <= set(doors())


@pytest.mark.parametrize("door", doors())
def test_importing_a_door_loads_nothing_behind_it(door: str) -> None:
    program = f"import sys, {door}; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    package = importlib.import_module(door)
    values = [getattr(package, name) for name in package.__all__]
    homes = {getattr(value, "__module__", "") for value in values}
    assert not {home for home in homes if home.startswith(f"{door}.")} & set(loaded)
    assert not HEAVY & set(loaded)


@pytest.mark.parametrize("door", doors())
def test_public_names_are_sorted_listed_and_no_files(door: str) -> None:
    package = importlib.import_module(door)

    assert sorted(set(package.__all__)) == sorted(package.__all__)
    assert set(package.__all__) <= set(dir(package))
    # Importing a submodule would replace a public name that is called like it.
    files = [each for each in package.__all__ if importlib.util.find_spec(f"{door}.{each}")]
    assert files == []


@pytest.mark.parametrize(("door", "name"), public_names())
def test_a_public_name_is_documented(door: str, name: str) -> None:
    package = importlib.import_module(door)
    value = getattr(package, name)

    if inspect.isclass(value) or inspect.isroutine(value):
        text = value.__doc__ or ""
        # Dataclasses and named tuples without a docstring get their signature as one.
        assert text and not text.startswith(f"{name}("), f"{door}.{name} has no docstring"
    described = package.__doc__ or ""
    page = next((page for start, page in PAGES.items() if f"{door}.".startswith(f"{start}.")), None)
    if page is not None:
        described += (ROOT / page).read_text()
    assert re.search(rf"\b{name}\b", described), f"neither {door} nor {page} mentions {name}"


@pytest.mark.parametrize("door", doors())
def test_a_wrong_name_is_an_attribute_error(door: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = importlib.import_module(door).no_such_name


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_pages_import_from_doors_only(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    modules = {
        module
        for block in blocks
        for module in re.findall(r"^\s*(?:from|import) (headrace[\w.]*)", block, re.M)
    }

    behind = {each for each in modules if not each.startswith("headrace.testing")} - {*doors()}
    assert behind == set()
