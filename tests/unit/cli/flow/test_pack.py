"""Packing a virtual environment: what is in the archive, and that its Python runs."""

import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from headrace.cli.flow.pack import pack_environment
from headrace.model.error import ConfigError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "env"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("tool/__init__.py", "pyspark/__init__.py", "pyspark/jars/big.jar", "unused/a.py"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("WHO = 'packed'\n")
    (packages / "_mine.pth").write_text("/home/me/src\n")
    return folder


@pytest.fixture(scope="module")
def unpacked(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    pack_environment(folder / "it.tar.gz", prefix=made, without=["unused"])
    with tarfile.open(folder / "it.tar.gz") as archive:
        # Python 3.11.4 and newer; before, and for an archive of our own, none is needed.
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)
        archive.extractall(folder / "environment")
    return folder / "environment"


def test_the_python_of_an_unpacked_environment_finds_its_packages(unpacked: Path) -> None:
    code = "import tool, headrace; print(tool.WHO, headrace.__file__)"
    said = subprocess.run(
        [unpacked / "bin" / "python", "-c", code],
        env={},
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
    )
    who, where = said.stdout.split()
    assert who == "packed"
    assert Path(where).is_relative_to(unpacked)


def test_jars_links_and_packages_not_wanted_are_left_out(unpacked: Path) -> None:
    (packages,) = unpacked.glob("lib/python*/site-packages")
    assert (packages / "pyspark" / "__init__.py").exists()
    assert not (packages / "pyspark" / "jars").exists()
    assert not (packages / "unused").exists()
    assert not (packages / "_mine.pth").exists()


def test_what_is_no_virtual_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="conda-pack"):
        pack_environment(tmp_path / "it.tar.gz", prefix=Path(sys.base_prefix))
    assert list(tmp_path.iterdir()) == []
