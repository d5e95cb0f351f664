"""The difference of two texts, line by line."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from headrace.console.line_diff import MOST_LINES, line_diff

LINES = st.lists(st.sampled_from(["{", "}", "a", "b"]), max_size=12)


def longest_common(before: list[str], after: list[str]) -> int:
    @cache
    def length(x: int, y: int) -> int:
        if x == len(before) or y == len(after):
            return 0
        if before[x] == after[y]:
            return 1 + length(x + 1, y + 1)
        return max(length(x + 1, y), length(x, y + 1))

    return length(0, 0)


@given(LINES, LINES)
def test_both_texts_are_in_the_difference_and_as_few_lines_changed_as_can_be(
    before: list[str], after: list[str]
) -> None:
    found = line_diff(before, after)
    assert [each.text for each in found if each.kind != "added"] == before
    assert [each.text for each in found if each.kind != "removed"] == after
    assert [each.before for each in found if each.before] == list(range(1, len(before) + 1))
    assert [each.after for each in found if each.after] == list(range(1, len(after) + 1))
    same = sum(each.kind == "same" for each in found)
    assert same == longest_common(before, after)


def test_texts_that_have_nothing_in_common_are_not_searched_for_long() -> None:
    before = ["first", *(f"old {each}" for each in range(MOST_LINES)), "last"]
    after = ["first", *(f"new {each}" for each in range(MOST_LINES)), "last"]
    found = line_diff(before, after)
    kinds = [each.kind for each in found]
    assert kinds == ["same", *["removed"] * MOST_LINES, *["added"] * MOST_LINES, "same"]
