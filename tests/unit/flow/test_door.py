"""The packages of flows offer their public names under one import each."""

import ast
import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOORS = (
    "headrace.flow",
    "headrace.flow.drpc",
    "headrace.flow.flux",
    "headrace.flow.samza",
    "headrace.flow.sql",
    "headrace.flow.storm",
    "headrace.flow.trident",
)
ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))


@pytest.mark.parametrize("door", DOORS)
def test_every_public_name_exists_and_is_in_the_docstring(door: str) -> None:
    package = importlib.import_module(door)

    for name in package.__all__:
        assert getattr(package, name).__name__ == name
        assert re.search(rf"\b{name}\b", package.__doc__ or ""), f"{name} is not in {door}.__doc__"


@pytest.mark.parametrize("door", DOORS)
def test_a_public_name_is_no_file_or_folder_of_its_package(door: str) -> None:
    package = importlib.import_module(door)
    (folder,) = package.__path__

    assert not {each.stem for each in Path(folder).iterdir()} & set(package.__all__)


@pytest.mark.parametrize("door", DOORS)
def test_a_public_class_pickles_by_its_home(door: str) -> None:
    package = importlib.import_module(door)

    for name in package.__all__:
        public = getattr(package, name)
        assert public.__module__ != door
        assert pickle.loads(pickle.dumps(public)) is public


def test_a_package_loads_nothing_heavy() -> None:
    code = (
        f"import sys, {', '.join(DOORS)}\nprint(*(each.partition('.')[0] for each in sys.modules))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()

    assert not {"numpy", "pandas", "pyarrow", "pyspark", "yaml"} & set(loaded)


def test_a_worker_that_loads_a_spout_loads_neither_spark_nor_the_client() -> None:
    code = (
        "import sys\nfrom headrace.flow.storm import TopicSpout\n"
        "print(*(each for each in sys.modules if each.startswith(('pyspark', 'headrace.client'))))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()

    assert loaded == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_use_public_names_only(path: Path) -> None:
    imports = [
        each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.ImportFrom)
    ]

    for each in imports:
        if (each.module or "").startswith("headrace."):
            package = importlib.import_module(str(each.module))
            assert {name.name for name in each.names} <= set(package.__all__)
