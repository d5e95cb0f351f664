"""Tests run against mutants of functions, in forks of a process that has collected the tests.

Most of what a mutant costs is the import of the project and of its tests. Here one process imports
and collects. Each mutant is a fork of it, in which the mutated code takes the place of the
function's own, and only the tests run that call this function: a tenth of a second of CPU.

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
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from testkit.mutation.mutant import Mutant
from testkit.mutation.target import ROOT, Target

_LEAST_CPU_SECONDS = 1.0
_WALL_SECONDS = 300
_DATA_BYTES = 4 << 30
_OPTIONS = ("-q", "--no-header", "--tb=short", "--assert=plain", "-p", "no:cacheprovider")
_PLUGINS = ("-p", "no:randomly", "-p", "testkit.mutation.quick_profile")

Calls = dict[tuple[str, int], dict[int, frozenset[int]]]
"""Of each function, by file and first line: the tests that call it, with the lines they run."""


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
        self._jobs = jobs
        self._folder = folder
        self._pipe = pipe
        self.failed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        found_calls = self._calls(session)
        if found_calls is None:
            self.failed = True
            return True
        calls, cpu_seconds = found_calls
        functions = _functions({str(target.path) for target, _ in self._mutants})
        sources = {target.path: target.path.read_text() for target, _ in self._mutants}
        gc.collect()
        gc.freeze()
        running: dict[int, tuple[int, Path]] = {}
        for number, (target, mutant) in enumerate(self._mutants):
            place = _function_at(sources[target.path], mutant.line)
            found = functions.get((str(target.path), place)) if place else None
            code = found and _code_at(mutant.apply(sources[target.path]), target.path, place)
            # Without a caller it may have run at import.
            chosen = calls.get((str(target.path), place or 0))
            if not found or not code or not chosen or not _fits(code, found):
                self._report(WarmVerdict(number, "unfit"))
                continue
            order = sorted(chosen, key=lambda each: (mutant.line not in chosen[each], each))
            while len(running) >= self._jobs:
                self._reap(running)
            own = self._folder / str(number)
            pid = os.fork()
            if pid == 0:
                _child(session, order, found, code, own, cpu_seconds)
            running[pid] = number, own
        while running:
            self._reap(running)
        return True

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

    def _calls(self, session: pytest.Session) -> tuple[Calls, list[float]] | None:
        """Run all tests in a fork, and return which function each calls, and its seconds of CPU.

        None when one fails.
        """
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            paths = {str(target.path) for target, _ in self._mutants}
            found: dict[tuple[str, int], dict[int, set[int]]] = defaultdict(dict)
            seconds: list[float] = []
            status = 0
            for number, item in enumerate(session.items):
                began = time.process_time()
                tracer = _tracer(paths, found, number)
                threading.settrace(tracer)
                sys.settrace(tracer)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                sys.settrace(None)
                seconds.append(time.process_time() - began)
                if session.testsfailed:
                    status = 1
                    break
            plain = {
                key: {at: frozenset(lines) for at, lines in each.items()}
                for key, each in found.items()
            }
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump((plain, seconds), pipe)
            reporter = session.config.pluginmanager.get_plugin("terminalreporter")
            if status and reporter is not None:
                reporter.summary_failures()
                reporter.summary_errors()
            sys.stdout.flush()
            os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            found_calls: tuple[Calls, list[float]] = pickle.load(pipe)
        _, status = os.waitpid(pid, 0)
        return None if status else found_calls


def _tracer(
    paths: set[str], found: dict[tuple[str, int], dict[int, set[int]]], number: int
) -> Callable[..., Any]:
    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in paths:
            return None
        code = frame.f_code
        key = code.co_filename, code.co_firstlineno
        lines = found[key].setdefault(number, set())

        def local(frame: FrameType, event: str, arg: object) -> Any:
            lines.add(frame.f_lineno)
            return local

        return local

    return trace


def _child(
    session: pytest.Session,
    order: Sequence[int],
    found: Sequence[FunctionType],
    code: CodeType,
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
        for each in found:
            each.__code__ = code
        status = 0
        for at in order:
            item = session.items[at]
            # A timer of CPU ends what goes on for ever. The tracing made the test slower already.
            signal.setitimer(signal.ITIMER_PROF, _LEAST_CPU_SECONDS + cpu_seconds[at])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if session.testsfailed:
                own.with_suffix(".killer").write_text(item.nodeid)
                status = 1
                break
    finally:
        os._exit(status)


def _fits(code: CodeType, found: Sequence[FunctionType]) -> bool:
    return all(len(each.__code__.co_freevars) == len(code.co_freevars) for each in found)


def _functions(paths: set[str]) -> dict[tuple[str, int], list[FunctionType]]:
    found = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename in paths:
            found[each.__code__.co_filename, each.__code__.co_firstlineno].append(each)
    return found


def _function_at(source: str, line: int) -> int | None:
    """Return the first line of the outermost function around a line, its decorators included."""
    for node in _outermost(ast.parse(source)):
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if first <= line <= (node.end_lineno or 0):
            return first
    return None


def _outermost(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        else:
            yield from _outermost(child)


def _code_at(source: str, path: Path, first: int | None) -> CodeType | None:
    stack = [compile(source, str(path), "exec", dont_inherit=True)]
    while stack:
        code = stack.pop()
        if code.co_firstlineno == first and code.co_name != "<module>" and _is_function(code):
            return code
        stack += [each for each in code.co_consts if isinstance(each, CodeType)]
    return None


def _is_function(code: CodeType) -> bool:
    optimized = 1
    return bool(code.co_flags & optimized)
