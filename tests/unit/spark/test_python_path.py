"""Which Python Spark starts, when a program's environment was not activated."""

import os
from pathlib import Path

import pytest

from headrace.spark.python_path import prefer_this_python


def interpreter(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder / names[0]


@pytest.fixture
def system(tmp_path: Path) -> str:
    return str(interpreter(tmp_path / "system", "python3").parent)


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The interpreter of an environment that is not on the PATH."""
    return str(interpreter(tmp_path / "venv", "python", "python3"))


def test_its_folder_goes_first_on_the_path(system: str, python: str) -> None:
    environment = {"PATH": system}

    prefer_this_python(environment, python)

    assert environment == {"PATH": f"{Path(python).parent}{os.pathsep}{system}"}


def test_a_folder_of_the_system_stays_where_it_is(system: str) -> None:
    environment = {"PATH": system}

    prefer_this_python(environment, "/usr/bin/python3")

    assert environment == {"PATH": system}


def test_without_a_path_it_is_added_to_the_default(python: str) -> None:
    environment: dict[str, str] = {}

    prefer_this_python(environment, python)

    assert environment["PATH"].split(os.pathsep)[0] == str(Path(python).parent)


def test_an_activated_environment_stays_as_it_is(system: str, python: str) -> None:
    environment = {"PATH": os.pathsep.join((str(Path(python).parent), system))}
    before = dict(environment)

    prefer_this_python(environment, python)

    assert environment == before


@pytest.mark.parametrize(
    "name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT"]
)
def test_what_the_user_or_spark_submit_has_set_decides(name: str, system: str, python: str) -> None:
    environment = {"PATH": system, name: "/opt/python"}
    before = dict(environment)

    prefer_this_python(environment, python)

    assert environment == before


def test_a_folder_without_python3_is_not_added(system: str, tmp_path: Path) -> None:
    environment = {"PATH": system}

    prefer_this_python(environment, str(interpreter(tmp_path / "odd", "pypy")))

    assert environment == {"PATH": system}


def test_an_embedded_interpreter_has_no_folder(system: str) -> None:
    environment = {"PATH": system}

    prefer_this_python(environment, "")

    assert environment == {"PATH": system}
