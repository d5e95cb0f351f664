import subprocess
import sys
import time

import pytest

from headrace.groups.error import GroupError, Refusal
from headrace.groups.regex import matching_topics


def test_whole_names_match_in_order() -> None:
    assert matching_topics("a.*|b", ["b", "bb", "ab", "a\nc", "xa"]) == ("ab", "b")


def test_no_topics_at_all() -> None:
    assert matching_topics(".*", []) == ()


@pytest.mark.parametrize("regex", ["[", "a)(b", "(?<=a)b", r"(a)\1"])
def test_what_re2_does_not_know_is_refused(regex: str) -> None:
    with pytest.raises(Refusal, match="RE2") as refusal:
        matching_topics(regex, ["a"])

    assert refusal.value.error is GroupError.INVALID_REGULAR_EXPRESSION


def test_the_refusal_says_what_re2_says_and_the_log_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Refusal, match=r"'a\)\(b' is not RE2 syntax: unexpected \)"):
        matching_topics("a)(b", ["a"])

    written = capfd.readouterr()
    assert "a)(b" not in written.out + written.err


def test_overlong_expression_is_refused() -> None:
    with pytest.raises(Refusal, match="at most"):
        matching_topics("a" * 40_000, ["a"])


def test_expression_that_makes_backtracking_engines_explode_takes_no_time() -> None:
    assert matching_topics("(a+)+$", ["a" * 200 + "!"]) == ()


@pytest.mark.parametrize("regex", [r"\pL{1000}", r"(?:\pL{1,30}|[^x]{1,30}){30}", "a" * 32_767])
def test_an_expression_that_is_large_when_compiled_does_not_hold_the_loop(regex: str) -> None:
    began = time.thread_time()

    matching_topics(regex, ["topic"])

    assert time.thread_time() - began < 0.05


def test_names_outside_ascii_match_by_characters() -> None:
    assert matching_topics("g.n", ["gün", "gen", "gaan"]) == ("gen", "gün")
    assert matching_topics(r"\pL+", ["gün", "7"]) == ("gün",)


def test_brokers_do_not_load_arrow_for_it() -> None:
    """Arrow carries RE2, too, but takes 50 MB, and a fifth of a second in which all wait."""
    script = "import sys, headrace.groups.regex; sys.exit('pyarrow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
