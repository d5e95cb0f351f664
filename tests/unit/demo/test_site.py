from collections import Counter

from headrace.demo.page_view import PageView
from headrace.demo.site import FAILING, PAGES, RISING, Site
from headrace.demo.topic import IMPRESSIONS, PROFILES, SEARCHES


def visits(seed: int, seconds: int) -> list[list[PageView]]:
    site = Site(seed=seed, per_second=200)
    return [
        list(site.views(from_ms=start, to_ms=start + 1_000))
        for start in range(0, seconds * 1_000, 1_000)
    ]


def test_the_same_seed_gives_the_same_visits() -> None:
    assert visits(7, 5) == visits(7, 5)
    assert visits(7, 5) != visits(8, 5)


def test_about_as_many_views_come_as_were_asked_for() -> None:
    # A whole day of the site: busy and quiet hours even out.
    views = sum(len(second) for second in visits(7, 120))

    assert 0.95 < views / (120 * 200) < 1.05


def test_some_hours_are_busier_than_others() -> None:
    seconds = visits(7, 120)

    assert len(seconds[30]) > 1.5 * len(seconds[90])


def test_the_first_page_is_seen_far_more_often_than_the_last() -> None:
    seen = Counter(view.page for second in visits(7, 5) for view in second)

    assert seen[PAGES[0]] > 5 * seen[PAGES[-1]]


def test_one_page_is_rising() -> None:
    seconds = visits(7, 70)
    early = sum(view.page == RISING for second in seconds[:10] for view in second)
    late = sum(view.page == RISING for second in seconds[-10:] for view in second)

    assert late > 3 * early


def test_only_one_page_fails_and_not_always() -> None:
    views = [view for second in visits(7, 60) for view in second]

    assert {view.page for view in views if view.status == 500} == {FAILING}
    assert any(view.status == 200 for view in views if view.page == FAILING)


def test_a_view_is_written_at_most_two_seconds_late() -> None:
    site = Site(seed=7, per_second=1_000)

    times = [view.at_ms for view in site.views(from_ms=10_000, to_ms=11_000)]

    assert min(times) > 8_000
    assert max(times) < 11_000


def test_views_are_written_in_order_also_after_a_long_pause() -> None:
    site = Site(seed=7, per_second=100)
    newest = 0

    for view in site.views(from_ms=0, to_ms=60_000):
        assert view.at_ms > newest - 2_000
        newest = max(newest, view.at_ms)


def test_searches_impressions_and_sign_ups_go_with_views() -> None:
    site = Site(seed=7, per_second=1_000)

    topics = Counter(
        each.topic for view in site.views(from_ms=0, to_ms=20_000) for each in site.besides(view)
    )

    assert topics[SEARCHES] > 100
    assert topics[IMPRESSIONS] > 100
    assert 0 < topics[PROFILES] < topics[SEARCHES]


def test_who_signs_up_visits_the_site_from_then_on() -> None:
    site = Site(seed=7, per_second=1_000)
    members = len(site.members(0))
    for view in site.views(from_ms=0, to_ms=60_000):
        list(site.besides(view))

    assert len(site.members(0)) > members


def test_the_failing_page_gets_well_again() -> None:
    views = [view for second in visits(7, 45) for view in second if view.page == FAILING]
    bad = [view.status == 500 for view in views if view.at_ms < 18_000]
    well = [view.status == 500 for view in views if view.at_ms > 22_000]

    assert sum(bad) / len(bad) > 0.3
    assert sum(well) / len(well) < 0.1
