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


def test_overlong_expression_is_refused() -> None:
    with pytest.raises(Refusal, match="at most"):
        matching_topics("a" * 40_000, ["a"])


def test_expression_that_makes_backtracking_engines_explode_takes_no_time() -> None:
    assert matching_topics("(a+)+$", ["a" * 200 + "!"]) == ()
