import pytest

from headrace.groups.error import GroupError, Refusal, check_text
from headrace.groups.record import MemberState
from headrace.groups.regex import matching_topics


@pytest.mark.parametrize("text", [None, "", "x" * 32_000, "ü" * 16_000])
def test_a_text_that_a_record_can_hold_is_taken(text: str | None) -> None:
    check_text("a name", text)


@pytest.mark.parametrize("text", ["x" * 32_001, "ü" * 16_001, "𝄞" * 8_001])
def test_a_text_that_no_record_can_hold_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="a name has at most 32000 bytes"):
        check_text("a name", text)


def test_an_expression_may_be_as_long_as_a_key_can_hold() -> None:
    longest = "a?" * 16_383 + "a"
    assert matching_topics(longest[:1_001], ["a"]) == ("a",)
    with pytest.raises(Refusal, match="at most 32767 bytes"):
        matching_topics(longest + "a", ["a"])
    with pytest.raises(Refusal, match="RE2"):
        matching_topics("[" + longest[1:], ["a"])


def test_a_refusal_says_what_it_refuses() -> None:
    refusal = Refusal(GroupError.INVALID_REQUEST, "too long")

    assert (str(refusal), refusal.message) == ("too long", "too long")


def test_states_of_members_are_stored_as_kafka_stores_them() -> None:
    stored = {each.name: each.value for each in MemberState}

    assert stored == {
        "STABLE": 0,
        "UNREVOKED_PARTITIONS": 1,
        "UNRELEASED_PARTITIONS": 2,
        "UNKNOWN": 127,
    }
