"""What the pages name exists: files, modules, and names in modules."""

import importlib
import re
import subprocess
from pathlib import Path

import pytest

from headrace.client.settings import CLIENT_CONFIG
from headrace.mirror.config.flow_settings import FLOW_CONFIG
from headrace.model.broker_config import BROKER_CONFIG
from headrace.model.topic_config import TOPIC_CONFIG

ROOT = Path(__file__).parents[2]
PACKAGES = {path.name for path in (ROOT / "src" / "headrace").iterdir() if path.is_dir()}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FILE = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|js|md|yaml|toml)|\w+\.py)`")
# Files of a user, in examples, and in the image of a user.
USERS = {"words.py", "file.py", "/opt/headrace/main.py"}
DOTTED = re.compile(r"`((?:headrace|testkit)(?:\.\w+)+|[a-z]+(?:\.\w+)+)(?:\(\))?`")
# Names of keys, topics and files that look like modules.
NOT_CODE = re.compile(
    r"audit\.(on|off|tier|topic|bucketMs)|client\.(rack|id)|broker\.id|cluster\.snapshot"
    r"|schema\.(registry\..*|subject)|headrace\.console\.changes|headrace\.flow\.(runs|requests)|spark\.(sql|jars|pyspark|python|driver|executor|executorEnv|cores)\b.*|\w+\.py"
)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
ANCHORED = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [f"/{name}" for name in listed.stdout.splitlines()]


KEYS = {key.name for table in (BROKER_CONFIG, TOPIC_CONFIG, FLOW_CONFIG) for key in table}


def exists(dotted: str) -> bool:
    """Return whether it is a module, or a name in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            if not hasattr(value, name):
                return name in getattr(value, "__annotations__", {})
            value = getattr(value, name)
        return True
    return False


def code_names(text: str) -> set[str]:
    """Return the dotted names in a page that mean code; the others are configuration keys."""
    found = set()
    for dotted in DOTTED.findall(text):
        if NOT_CODE.fullmatch(dotted) or dotted in KEYS:
            continue
        first, second = dotted.split(".")[:2]
        if first in ("headrace", "testkit") and (second in PACKAGES or first == "testkit"):
            found.add(dotted)
        elif first in PACKAGES and _is_module(first, second):
            found.add(f"headrace.{dotted}")
    return found


def _is_module(package: str, name: str) -> bool:
    # Of these, only what names a file or folder is code: `log.dirs`, `schema.registry.url` and
    # `spark.master` are keys.
    if package not in ("log", "schema", "spark"):
        return True
    folder = ROOT / "src" / "headrace" / package
    return (folder / name).is_dir() or (folder / f"{name}.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_everything_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    tracked = files()

    named = set(FILE.findall(text)) - USERS
    lost = {name for name in named if not any(f.endswith(f"/{name}") for f in tracked)}
    lost |= {name for name in code_names(text) if not exists(name)}
    lost |= {link for link in LINK.findall(text) if not (page.parent / link).exists()}
    assert lost == set()


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    words = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(page.read_text()))
    return {each.replace(" ", "-") for each in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_headings_lead_to_one(page: Path) -> None:
    links = ANCHORED.findall(page.read_text())

    assert [
        f"{path}#{anchor}"
        for path, anchor in links
        if anchor not in anchors(page.parent / path if path else page)
    ] == []


def test_the_table_of_packages_names_every_folder() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|.*?\|(.*)\|$", page, re.MULTILINE))

    assert set(rows) >= PACKAGES - {"__pycache__"}
    lost = [
        f"{package}/{folder.name}"
        for package, named in rows.items()
        for folder in (ROOT / "src" / "headrace" / package).iterdir()
        if folder.is_dir() and folder.name != "__pycache__" and f"`{folder.name}/`" not in named
    ]
    assert lost == []


def test_the_table_of_client_settings_is_complete() -> None:
    page = (ROOT / "docs" / "client.md").read_text().partition("## Reading")[0]

    rows = dict(re.findall(r"^\| (`.*?) \| (.*?) \|", page, re.MULTILINE))
    keys = {name: keys for keys in rows for name in re.findall("`(.*?)`", keys)}
    assert set(keys) == set(CLIENT_CONFIG.defaults())
    for name, default in CLIENT_CONFIG.defaults().items():
        if default is not None:
            assert rows[keys[name]].strip("`") == str(default)
