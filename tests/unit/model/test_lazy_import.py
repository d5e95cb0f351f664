"""A package offers names of files that it has not loaded yet."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = """
from headrace.model.lazy_import import lazy_names

__all__ = ["Pump", "Valve"]
__getattr__, __dir__ = lazy_names(
    __name__, {"Pump": "waterworks.pump", "Valve": "waterworks.fitting.valve"}
)
"""


@pytest.fixture
def waterworks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package on the import path with two lazy names, one of them in a folder."""
    root = tmp_path / "waterworks"
    (root / "fitting").mkdir(parents=True)
    (root / "__init__.py").write_text(PACKAGE)
    (root / "pump.py").write_text("class Pump: ...\n")
    (root / "fitting" / "__init__.py").write_text("")
    (root / "fitting" / "valve.py").write_text("class Valve: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "waterworks"]:
        del sys.modules[name]


def test_importing_the_package_loads_no_file_behind_it(waterworks: None) -> None:
    import waterworks  # noqa: F401

    assert [name for name in sys.modules if name.startswith("waterworks.")] == []


def test_a_name_loads_its_own_file_only(waterworks: None) -> None:
    from waterworks import Pump

    assert Pump.__module__ == "waterworks.pump"
    assert "waterworks.fitting.valve" not in sys.modules


def test_a_loaded_name_becomes_a_plain_attribute(waterworks: None) -> None:
    import waterworks

    valve = waterworks.Valve

    assert vars(waterworks)["Valve"] is valve


def test_dir_lists_names_that_are_not_loaded(waterworks: None) -> None:
    import waterworks

    assert {"Pump", "Valve", "__all__"} <= set(dir(waterworks))
    assert "Pump" not in vars(waterworks)


def test_a_star_import_loads_every_name(waterworks: None) -> None:
    names: dict[str, object] = {}

    exec("from waterworks import *", names)

    assert {"Pump", "Valve"} <= set(names)


def test_a_name_that_does_not_exist_is_an_attribute_error(waterworks: None) -> None:
    import waterworks

    with pytest.raises(AttributeError, match="module 'waterworks' has no attribute 'Drain'"):
        _ = waterworks.Drain


def test_a_submodule_is_still_imported_by_its_own_name(waterworks: None) -> None:
    from waterworks import pump

    assert pump.__name__ == "waterworks.pump"


def test_the_helper_itself_loads_nothing_heavy() -> None:
    program = "import sys, headrace.model.lazy_import; print(*sorted(sys.modules), sep='\\n')"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    ours = {name for name in loaded if name.split(".")[0] == "headrace"}
    assert ours == {"headrace", "headrace.model", "headrace.model.lazy_import"}
    assert not {"numpy", "pyarrow", "kio", "structlog"} & set(loaded)
