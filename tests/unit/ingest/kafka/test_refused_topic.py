"""Topics that the cluster refuses, for a while and not too many."""

from headrace.ingest.kafka import refused_topic
from headrace.ingest.kafka.refused_topic import RefusedTopics


def test_a_topic_is_asked_for_again_after_a_minute() -> None:
    now = [100.0]
    refused = RefusedTopics(lambda: now[0])
    refused.add(["denied"])
    assert "denied" in refused
    assert "other" not in refused
    now[0] += 61
    assert "denied" not in refused


def test_names_that_are_found_one_by_one_stay_until_all_are_found() -> None:
    now = [100.0]
    refused = RefusedTopics(lambda: now[0])
    names = [f"t{each}" for each in range(10)]
    for name in names:
        refused.add([name])
        now[0] += 30
    assert all(name in refused for name in names)


def test_senders_cannot_fill_the_memory_with_names() -> None:
    refused = RefusedTopics(lambda: 0.0)
    for each in range(5 * refused_topic._MOST):
        refused.add([f"t{each}"])
    assert len(refused._names) <= refused_topic._MOST


def test_what_is_added_at_once_is_not_forgotten_for_its_number() -> None:
    refused = RefusedTopics(lambda: 0.0)
    refused.add(["before"])
    names = [f"t{each}" for each in range(2 * refused_topic._MOST + 1)]
    refused.add(iter(names))
    assert all(name in refused for name in names)
    assert "before" not in refused


def test_a_name_that_is_added_again_makes_no_room() -> None:
    refused = RefusedTopics(lambda: 0.0)
    names = [f"t{each}" for each in range(refused_topic._MOST)]
    refused.add(names)
    refused.add(names[:1])
    assert all(name in refused for name in names)
