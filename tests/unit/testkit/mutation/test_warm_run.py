"""Mutants decided in forks of a process that has collected the tests."""

from pathlib import Path

import pytest

from testkit.mutation.mutant import mutants_of
from testkit.mutation.target import Target
from testkit.mutation.warm_run import TestsFailed, warm_verdicts

SOURCE = """
LIMITS = {"a": 3}
LIMITS["b"] = 4

class Door:
    def is_open(self, hour: int) -> bool:
        if hour < 8:
            return False
        return hour < 20

def forever(steps: int) -> int:
    while steps > 0:
        steps -= 1
    return steps
"""
TESTS = """
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from sys import modules

spec = spec_from_file_location("mutated_part", Path(__file__).with_name("part.py"))
part = module_from_spec(spec)
spec.loader.exec_module(part)

def test_hours():
    assert not part.Door().is_open(3)
    assert part.Door().is_open(8)
    assert not part.Door().is_open(22)

def test_steps():
    assert part.forever(2) == 0
"""


@pytest.fixture
def target(tmp_path: Path) -> Target:
    (tmp_path / "part.py").write_text(SOURCE)
    (tmp_path / "test_part.py").write_text(TESTS)
    return Target(tmp_path / "part.py", (tmp_path / "test_part.py",), ())


def test_each_mutant_is_decided_by_the_tests_that_call_it(target: Target) -> None:
    # Of the mutants that never end one is enough: each costs its limit of CPU.
    mutants = [
        (target, each)
        for each in mutants_of(target.path, SOURCE)
        if each.line < SOURCE.splitlines().index("def forever(steps: int) -> int:")
        or each.replacement == "steps += 1"
    ]

    verdicts = list(warm_verdicts(mutants, target.unit, jobs=2))

    found = {
        (mutants[each.number][1].changed_lines(SOURCE)[1], each.outcome, each.test.split("::")[-1])
        for each in verdicts
    }
    assert ("if hour <= 8:", "killed", "test_hours") in found
    assert ("return hour <= 20", "survived", "") in found, "no test goes to the border"
    assert ("steps += 1", "timeout", "") in found
    assert ("pass", "unfit", "") in found, "it runs at import"
    assert len(verdicts) == len(mutants)


def test_tests_that_fail_without_a_mutant_decide_nothing(target: Target) -> None:
    target.unit[0].write_text(TESTS.replace("== 0", "== 1"))
    mutants = [(target, each) for each in mutants_of(target.path, SOURCE)]

    with pytest.raises(TestsFailed, match="test_steps"):
        list(warm_verdicts(mutants, target.unit, jobs=2))
