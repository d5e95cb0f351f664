"""Tests run against mutants, each in a process forked from one that has the slow imports behind it.

Most are decided by `warm_verdicts`. What that cannot decide is done here, slower. The fork has
imported the libraries but nothing of this project. In the child an import hook hands out the
mutated source, and pytest runs in process until the first test fails. So a mutant costs the import
of what its tests need, and no start of an interpreter. The file on disk is never touched.
"""

import importlib
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from testkit.mutation.mutant import Mutant
from testkit.mutation.target import ROOT, Target
from testkit.mutation.warm_run import TestsFailed, warm_verdicts

# What takes long to import, and nothing here changes.
_HEAVY = (
    "pytest",
    "hypothesis",
    "hypothesis.stateful",
    "numpy",
    "numba",
    "pyarrow",
    "structlog",
    "confluent_kafka",
    "confluent_kafka.admin",
    "kazoo.client",
    "xdist",
    "asyncio",
    "uvloop",
)
_DATA_BYTES = 4 << 30
_LEAST_CPU_SECONDS = 20
_SLOWER = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: "killed", "timeout" or "survived", and the stage that decided."""

    mutant: Mutant
    target: Target
    outcome: str
    stage: str

    @property
    def killed(self) -> bool:
        return self.outcome != "survived"


def import_heavy() -> None:
    """Import what every child needs, before the first fork."""
    for name in _HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)


class MutantRun:
    """Runs the tests of mutants, `jobs` at a time.

    Example:
        run = MutantRun(jobs=2)
        for verdict in run.verdicts([(target, mutant)]):
            print(verdict.outcome)
    """

    def __init__(self, jobs: int, *, properties: bool = True) -> None:
        self._jobs = jobs
        self._properties = properties
        self._cpu_seconds: dict[tuple[Path, ...], float] = {}

    def _check(self, found: Sequence[Target]) -> None:
        """Run every test without a mutant, to know how long it takes."""
        for target in found:
            for tests in (target.unit, target.property if self._properties else ()):
                key = tuple(sorted(tests))
                if not tests or key in self._cpu_seconds:
                    continue
                child = _Child(None, target, tests, 0)
                self._cpu_seconds[key] = child.wait()
                if child.status != 0:
                    raise TestsFailed(f"{target.name}\n{child.output}")

    def verdicts(self, mutants: Sequence[tuple[Target, Mutant]]) -> Iterator[Verdict]:
        """Yield what became of each mutant, as they end. Raises `TestsFailed`."""
        left: list[tuple[Target, Mutant]] = list(mutants)
        unfit: list[tuple[Target, Mutant]] = []
        for stage in ("unit", "property") if self._properties else ("unit",):
            by_tests: dict[tuple[Path, ...], list[tuple[Target, Mutant]]] = defaultdict(list)
            for target, mutant in left:
                tests = target.unit if stage == "unit" else target.property
                by_tests[tuple(sorted(tests))].append((target, mutant))
            left = by_tests.pop((), [])
            for tests, some in by_tests.items():
                for each in warm_verdicts(some, tests, self._jobs):
                    target, mutant = some[each.number]
                    if each.outcome == "unfit":
                        unfit.append((target, mutant))
                    elif each.outcome == "survived":
                        left.append((target, mutant))
                    else:
                        yield Verdict(mutant, target, each.outcome, stage)
        for target, mutant in left:
            yield Verdict(mutant, target, "survived", "property")
        self._check(list(dict.fromkeys(target for target, _ in unfit)))
        yield from self._cold_verdicts(unfit)

    def _cold_verdicts(self, mutants: Sequence[tuple[Target, Mutant]]) -> Iterator[Verdict]:
        waiting = list(reversed(mutants))
        running: list[tuple[_Child, Mutant, str]] = []
        while waiting or running:
            while waiting and len(running) < self._jobs:
                target, mutant = waiting.pop()
                running.append((self._child(mutant, target, target.unit), mutant, "unit"))
            for each in list(running):
                child, mutant, stage = each
                if not child.ended():
                    continue
                running.remove(each)
                target = child.target
                if child.status == 0 and stage == "unit" and self._properties and target.property:
                    again = self._child(mutant, target, target.property)
                    running.append((again, mutant, "property"))
                else:
                    yield Verdict(mutant, target, child.outcome, stage)
            time.sleep(0.01)

    def _child(self, mutant: Mutant, target: Target, tests: tuple[Path, ...]) -> "_Child":
        usual = self._cpu_seconds.get(tuple(sorted(tests)), 0.0)
        return _Child(mutant, target, tests, int(_SLOWER * usual) + _LEAST_CPU_SECONDS)


class _Child:
    """One fork. `limit_seconds` of CPU end it, and ten times as long on the wall."""

    def __init__(
        self, mutant: Mutant | None, target: Target, tests: tuple[Path, ...], limit_seconds: int
    ) -> None:
        self.target = target
        self.status: int | None = None
        self.output = ""
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._limit_seconds = limit_seconds
        self._began = time.monotonic()
        self._pid = os.fork()
        if self._pid == 0:
            status = 70
            try:
                status = _run(mutant, target, tests, Path(self._folder.name), limit_seconds)
            except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)

    @property
    def outcome(self) -> str:
        if self.status == 0:
            return "survived"
        assert self.status is not None
        return "timeout" if self.status in (-signal.SIGXCPU, -signal.SIGKILL) else "killed"

    def ended(self) -> bool:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        late = self._limit_seconds and time.monotonic() - self._began > 10 * self._limit_seconds
        if not pid and late:
            os.kill(self._pid, signal.SIGKILL)
            pid, status = os.waitpid(self._pid, 0)
        if pid:
            self._clean(status)
        return bool(pid)

    def wait(self) -> float:
        """Wait for the end, and return the seconds of CPU it took."""
        _, status, usage = os.wait4(self._pid, 0)
        self._clean(status)
        return usage.ru_utime + usage.ru_stime

    def _clean(self, status: int) -> None:
        self.status = os.waitstatus_to_exitcode(status)
        self.output = (Path(self._folder.name) / "output").read_text(errors="replace")[-3000:]
        self._folder.cleanup()


def _run(
    mutant: Mutant | None, target: Target, tests: tuple[Path, ...], folder: Path, limit_seconds: int
) -> int:
    """Run in the child: install the mutant, then the tests; return pytest's exit code."""
    os.setpgid(0, 0)
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if limit_seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_seconds, limit_seconds + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (_DATA_BYTES, _DATA_BYTES))
    os.chdir(ROOT)
    if mutant is not None:
        source = mutant.apply(target.path.read_text())
        code = compile(source, str(target.path), "exec", dont_inherit=True)
        sys.meta_path.insert(0, _Finder(target, code))
    import pytest

    options = [
        "-x",
        "-q",
        "--no-header",
        "--tb=line",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    options += ["-p", "testkit.mutation.quick_profile", f"--basetemp={folder / 'pytest'}"]
    return int(pytest.main([*options, *map(str, tests)]))


class _Finder(MetaPathFinder):
    """Hands out the mutated module."""

    def __init__(self, target: Target, code: CodeType) -> None:
        self._target = target
        self._code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._target.module:
            return None
        place = str(self._target.path)
        return spec_from_file_location(fullname, place, loader=_Loader(fullname, place, self._code))


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self._mutated = code

    def get_code(self, fullname: str) -> CodeType:
        return self._mutated
