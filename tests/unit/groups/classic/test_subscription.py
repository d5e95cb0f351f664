from headrace.groups.classic.subscription import subscribed_topics


def test_topics_of_every_version_are_read() -> None:
    topics = b"\0\0\0\2\0\1a\0\1b"

    for version in (b"\0\0", b"\0\1", b"\0\3", b"\0\x09"):
        assert subscribed_topics(version + topics + b"\xff\xff\xff\xff") == {"a", "b"}


def test_foreign_bytes_are_no_subscription() -> None:
    assert subscribed_topics(b"") is None
    assert subscribed_topics(b"\xff\xff") is None
    assert subscribed_topics(b"\0\0\x7f\xff\xff\xff") is None
    assert subscribed_topics(b"\0\0\0\0\0\1\0\2\xff\xff") is None
