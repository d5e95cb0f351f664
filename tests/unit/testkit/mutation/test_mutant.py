"""Mutants: which faults a source can be given, and what they look like."""

from pathlib import Path

from testkit.mutation.mutant import mutants_of
from testkit.mutation.target import targets

PATH = Path("part.py")


def lines_after(source: str) -> list[str]:
    """Return what each mutant makes of the lines it changes."""
    return [each.changed_lines(source)[1] for each in mutants_of(PATH, source)]


def test_a_comparison_has_its_border_moved_and_is_turned_round():
    assert sorted(lines_after("a = b < c\n")) == ["a = b <= c", "a = b >= c"]


def test_a_sign_an_and_and_a_not():
    assert lines_after("a = b - c\n") == ["a = (b + c)"]
    assert lines_after("a = b and c\n") == ["a = (b or c)"]
    assert lines_after("a = not b\n") == ["a = (b)"]


def test_a_number_goes_one_up_and_one_down_but_a_sentinel_only_changes_its_sign():
    assert sorted(lines_after("a = 3\n")) == ["a = 2", "a = 4"]
    assert lines_after("a = -1\n") == ["a = (1)"]


def test_a_predicate_says_the_opposite():
    source = "def f(a: int) -> bool:\n    return g(a)\n"

    assert lines_after(source) == ["return not (g(a))"]


def test_a_statement_is_removed():
    assert lines_after("f()\n") == ["pass"]
    assert lines_after("a.b = c\n") == ["pass"]
    assert lines_after("raise Wrong('1 is not 2')\n") == ["pass"]


def test_what_no_test_should_notice_stays():
    unseen = [
        'log.info("opened", count=1)\n',
        "assert a < 3\n",
        "a = zip(b, c, strict=True)\n",
        "def f(a: int = 3) -> None: ...\n",
        "class A:\n    a: int = 3\n",
        "class A:\n    a: int = 3 * MINUTE\n",
        "class A:\n    a: int = -1\n",
        "_LIMITS: Final = {'a': 3}\n",
        "_LIMIT_BYTES = 3 * 1024\n",
        'class A:\n    __slots__ = ("a" * 2,)\n',
        "def f() -> None:\n    '''1 < 2'''\n",
        'a = f"{b + 1}"\n',
    ]

    assert [lines_after(source) for source in unseen] == [[]] * len(unseen)


def test_every_mutant_is_a_program():
    for target in targets("replication/"):
        source = target.path.read_text()
        for mutant in mutants_of(target.path, source):
            compile(mutant.apply(source), str(target.path), "exec")


def test_every_target_has_unit_tests():
    assert [target.name for target in targets() if not target.unit] == []
