"""Which code is mutated, and which tests must notice."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "headrace"

# The pure machines, the log and the fast paths, each with the folders of its tests. The first
# pattern that fits a file counts: where the tests of its own do, it names those alone.
_FILES: dict[str, tuple[str, ...]] = {
    "replication/partition_state.py": ("replication",),
    "replication/divergence.py": ("replication",),
    "log/partition/admission.py": (
        "log/partition/test_admission.py",
        "log/partition/test_appender.py",
        "log/partition/test_appender_follower.py",
        "log/partition/test_appender_producer.py",
    ),
    "log/partition/leader_epochs.py": ("log/partition/test_leader_epochs.py",),
    "log/partition/leftover.py": ("log/partition/test_leftover.py",),
    "log/partition/plain_append.py": ("log/partition/test_plain_append.py",),
    "log/partition/*.py": ("log/partition", "log/test_full_disk.py"),
    "log/producer/producer_state.py": ("log/producer",),
    "groups/**/*.py": ("groups",),
    "transactions/*.py": ("transactions",),
    "cluster/[!jl]*.py": ("cluster",),  # without the journal and the local store
    "broker/fastpath/*.py": ("broker/fastpath", "broker/replica/test_fast_follower.py"),
}

PROVEN = (
    "groups/classic",
    "groups/consumer/",
    "groups/migration/",
    "transactions/",
    "replication/",
    "log/partition/admission.py",
    "log/partition/leader_epochs.py",
    "log/partition/leftover.py",
    "log/partition/log_truncator.py",
    "log/partition/plain_append.py",
    "log/partition/segment_roller.py",
    "log/producer/",
    "headrace/cluster/",
    "broker/fastpath/",
)
"""Files whose unit tests kill at least 95 % of all mutants. CI checks a sample of 50 against 90 %,
since a sample varies."""


@dataclass(frozen=True, slots=True)
class Target:
    """A source file, the unit tests that run first, and the property tests for what is left."""

    path: Path
    unit: tuple[Path, ...]
    property: tuple[Path, ...]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT / "src").with_suffix("").parts)


def targets(only: str = "") -> list[Target]:
    """Return every target whose path contains `only`."""
    found = []
    seen: set[Path] = set()
    for pattern, tests in _FILES.items():
        for path in sorted({*SOURCE.glob(pattern)} - seen):
            seen.add(path)
            if path.name == "__init__.py" or only not in str(path.relative_to(ROOT)):
                continue
            unit = _nearest_first(path, [*_below(ROOT / "tests" / "unit", tests)])
            more = _nearest_first(path, [*_below(ROOT / "tests" / "property", tests)])
            found.append(Target(path, tuple(unit), tuple(more)))
    return found


def _below(folder: Path, tests: tuple[str, ...]) -> Iterator[Path]:
    for each in tests:
        place = folder / each
        if place.is_file():
            yield place
        elif place.is_dir():
            yield from sorted(place.rglob("test_*.py"))


def _nearest_first(path: Path, tests: list[Path]) -> list[Path]:
    """Put the test file with the name of the source file first: it finds most."""
    return sorted(tests, key=lambda each: each.name != f"test_{path.name}")
