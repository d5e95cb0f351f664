"""Tests run against mutants of functions, in forks of a process that has collected the tests.

Most of what a mutant costs is the import of the project and of its tests. Here one process imports
and collects. Each mutant is a fork of it, in which the mutated code takes the place of the
function's own, and only the tests run that reach its statement: less than a tenth of a second.

Left to `MutantRun`: what runs at import (the body of a module or a class), what numba has compiled,
and a mutant that uses other variables of an enclosing function.
"""

import ast
import gc
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from testkit.mutation.mutant import Mutant
from testkit.mutation.statement_mark import (
    Place,
    codes,
    first_line,
    functions_of,
    mark,
    outermost_functions,
    statement_at,
)
from testkit.mutation.target import ROOT, Target

_LEAST_CPU_SECONDS = 1.0
_WALL_SECONDS = 300
_DATA_BYTES = 4 << 30
_OPTIONS = ("-q", "--no-header", "--tb=short", "--assert=plain", "-p", "no:cacheprovider")
_PLUGINS = ("-p", "no:randomly", "-p", "testkit.mutation.quick_profile")

Reach = tuple[dict[Place, list[int]], list[float]]
"""The tests that run each statement, by their numbers, and the seconds of CPU of each test."""

_Change = tuple[Sequence[FunctionType], CodeType]


class TestsFailed(Exception):
    """Tests fail without a mutant. The text is what pytest said."""

    __test__ = False


@dataclass(frozen=True, slots=True)
class WarmVerdict:
    """What became of a mutant, named by its place in the list.

    Attributes:
        outcome: "killed", "timeout", "survived", or "unfit": to be decided by `MutantRun`.
        test: the test that killed it.
    """

    number: int
    outcome: str
    test: str = ""


def warm_verdicts(
    mutants: Sequence[tuple[Target, Mutant]], tests: Sequence[Path], jobs: int
) -> Iterator[WarmVerdict]:
    """Yield what became of each mutant. Raises `TestsFailed` when a test fails without one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            status = 70
            try:
                status = _host(mutants, tests, jobs, Path(folder), writing)
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe, suppress(EOFError):
            while True:
                yield pickle.load(pipe)
        _, status = os.waitpid(pid, 0)
        if status:
            raise TestsFailed((Path(folder) / "output").read_text(errors="replace")[-3000:])


def _host(
    mutants: Sequence[tuple[Target, Mutant]],
    tests: Sequence[Path],
    jobs: int,
    folder: Path,
    writing: int,
) -> int:
    """Run in the first child: collect the tests, then let `_Loop` fork. Return an exit code."""
    os.chdir(ROOT)
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = sys.stderr = os.fdopen(output, "w")
    with os.fdopen(writing, "wb") as pipe:
        loop = _Loop(mutants, jobs, folder, pipe)
        options = [*_OPTIONS, *_PLUGINS, f"--basetemp={folder}/pytest"]
        status = int(pytest.main([*options, *map(str, tests)], plugins=[loop]))
    sys.stdout.flush()
    sys.stderr.flush()
    return status or int(loop.failed)


class _Loop:
    """A pytest plugin that runs the collected tests once for each mutant."""

    def __init__(
        self, mutants: Sequence[tuple[Target, Mutant]], jobs: int, folder: Path, pipe: Any
    ) -> None:
        self._mutants = mutants
        self._sources = {target.path: target.path.read_text() for target, _ in mutants}
        self._functions: dict[Place, list[FunctionType]] = {}
        self._jobs = jobs
        self._folder = folder
        self._pipe = pipe
        self.failed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._functions = functions_of({str(path) for path in self._sources})
        reach = self._reach(session)
        if reach is None:
            self.failed = True
            return True
        tests_of, cpu_seconds = reach
        trees = {path: ast.parse(source) for path, source in self._sources.items()}
        gc.collect()
        gc.freeze()
        running: dict[int, tuple[int, Path]] = {}
        for number, (target, mutant) in enumerate(self._mutants):
            function = _function_at(trees[target.path], mutant.line)
            change = None if function is None else self._change(target, mutant, function)
            statement = None if function is None else statement_at(function, mutant.line)
            # Without a caller it may have run at import.
            tests = tests_of.get((str(target.path), statement or 0))
            if change is None or not tests:
                self._report(WarmVerdict(number, "unfit"))
                continue
            while len(running) >= self._jobs:
                self._reap(running)
            own = self._folder / str(number)
            pid = os.fork()
            if pid == 0:
                _child(
                    session, sorted(tests, key=cpu_seconds.__getitem__), change, own, cpu_seconds
                )
            running[pid] = number, own
        while running:
            self._reap(running)
        return True

    def _change(
        self, target: Target, mutant: Mutant, function: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> "_Change | None":
        """Return the mutated code of a function; None when it cannot take the function's place."""
        found = self._functions.get((str(target.path), first_line(function)), ())
        source = mutant.apply(self._sources[target.path])
        module = compile(source, str(target.path), "exec", dont_inherit=True)
        code = next(
            (each for each in codes(module) if each.co_firstlineno == first_line(function)), None
        )
        if code is None or not found:
            return None
        fits = all(len(each.__code__.co_freevars) == len(code.co_freevars) for each in found)
        return (found, code) if fits else None

    def _reap(self, running: dict[int, tuple[int, Path]]) -> None:
        pid, status = os.wait()
        number, own = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        late = code in (-signal.SIGPROF, -signal.SIGALRM)
        outcome = "survived" if code == 0 else "timeout" if late else "killed"
        killer = own.with_suffix(".killer")
        test = killer.read_text() if killer.exists() else ""
        self._report(WarmVerdict(number, outcome, test))

    def _report(self, verdict: WarmVerdict) -> None:
        pickle.dump(verdict, self._pipe)
        self._pipe.flush()

    def _reach(self, session: pytest.Session) -> Reach | None:
        """Run all tests in a fork, and return what they reach; None when one fails."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            status = 70
            try:
                status = self._measure(session, writing)
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            reach: Reach = pickle.load(pipe)
        _, status = os.waitpid(pid, 0)
        return None if status else reach

    def _measure(self, session: pytest.Session, writing: int) -> int:
        ran = [mark(source, path, self._functions) for path, source in self._sources.items()]
        tests_of: dict[Place, list[int]] = defaultdict(list)
        seconds: list[float] = []
        for number, item in enumerate(session.items):
            began = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            seconds.append(time.process_time() - began)
            for places in ran:
                for place in places:
                    tests_of[place].append(number)
                places.clear()
            if session.testsfailed:
                break
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump((dict(tests_of), seconds), pipe)
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if session.testsfailed and reporter is not None:
            reporter.summary_failures()
            reporter.summary_errors()
        sys.stdout.flush()
        return 1 if session.testsfailed else 0


def _child(
    session: pytest.Session,
    order: Sequence[int],
    change: _Change,
    own: Path,
    cpu_seconds: Sequence[float],
) -> None:
    """Put the fault in, run the tests until one fails, and end."""
    status = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (_DATA_BYTES, _DATA_BYTES))
        signal.alarm(_WALL_SECONDS)
        factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._given_basetemp = own
        factory._basetemp = None
        found, code = change
        for each in found:
            each.__code__ = code
        status = 0
        for at in order:
            item = session.items[at]
            # A timer of CPU ends what goes on for ever.
            signal.setitimer(signal.ITIMER_PROF, _LEAST_CPU_SECONDS + 3 * cpu_seconds[at])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if session.testsfailed:
                own.with_suffix(".killer").write_text(item.nodeid)
                status = 1
                break
    finally:
        os._exit(status)


def _function_at(tree: ast.Module, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the outermost function around a line."""
    return next(
        (
            each
            for each in outermost_functions(tree)
            if each.lineno <= line <= (each.end_lineno or 0)
        ),
        None,
    )
