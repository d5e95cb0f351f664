"""Where an agent imports components from."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.agent import app

CONF = (
    "a1.sources = r1\na1.channels = c1\na1.sinks = k1\n"
    "a1.sources.r1.type = own_component:Own\na1.sources.r1.channels = c1\n"
    "a1.channels.c1.type = memory\na1.sinks.k1.type = null\na1.sinks.k1.channel = c1\n"
)
COMPONENT = (
    "import shared_library\n"
    "from headrace.ingest.source import PollableSource\n"
    "class Own(PollableSource):\n"
    "    def poll(self): return False\n"
)


def test_a_file_in_the_folder_does_not_replace_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries, here = tmp_path / "libraries", tmp_path / "here"
    for folder in (libraries, here):
        folder.mkdir()
        (folder / "shared_library.py").write_text(f"FOLDER = {folder.name!r}\n")
    (here / "own_component.py").write_text(COMPONENT)
    (here / "agent.conf").write_text(CONF)
    monkeypatch.syspath_prepend(str(libraries))
    monkeypatch.chdir(here)
    try:
        result = CliRunner().invoke(app, ["check", "agent.conf"])
        assert result.exit_code == 0, result.output
        assert sys.modules["shared_library"].FOLDER == "libraries"
    finally:
        for name in ("shared_library", "own_component"):
            sys.modules.pop(name, None)
