"""Which topics of the target a flow takes for its own."""

from uuid import UUID

import pytest

from headrace.mirror.link.link_flow import why_no_mirror
from headrace.mirror.link.mirror_topic import LINK, SOURCE_TOPIC, SOURCE_TOPIC_ID
from headrace.mirror.process.topic_plan import CopiedTopic

ID, OTHER_ID = UUID(int=7), UUID(int=8)
CLICKS = CopiedTopic("clicks", "us.clicks", 1, ID)
SAME_NAME = CopiedTopic("clicks", "clicks", 1, None)


@pytest.mark.parametrize(
    ("values", "topic"),
    [
        ({LINK: "us", SOURCE_TOPIC: "clicks", SOURCE_TOPIC_ID: str(ID)}, CLICKS),
        ({LINK: "us", SOURCE_TOPIC: "clicks", SOURCE_TOPIC_ID: str(ID).upper()}, CLICKS),
        ({LINK: "us", SOURCE_TOPIC: "clicks", SOURCE_TOPIC_ID: ""}, CLICKS),
        ({LINK: "us", SOURCE_TOPIC: "", SOURCE_TOPIC_ID: str(ID)}, SAME_NAME),
        ({LINK: "us"}, SAME_NAME),
    ],
)
def test_a_copy_of_the_topic_is_its_mirror(
    values: dict[str, str | None], topic: CopiedTopic
) -> None:
    assert why_no_mirror(values, "us", topic) is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "no mirror"),
        ({LINK: "ca", SOURCE_TOPIC: "clicks"}, "no mirror"),
        ({LINK: "us"}, "mirror of us.clicks, not of clicks"),
        ({LINK: "us", SOURCE_TOPIC: "orders"}, "mirror of orders, not of clicks"),
        ({LINK: "us", SOURCE_TOPIC: "clicks", SOURCE_TOPIC_ID: str(OTHER_ID)}, "created again"),
    ],
)
def test_another_topic_is_not(values: dict[str, str | None], reason: str) -> None:
    assert reason in (why_no_mirror(values, "us", CLICKS) or "")
