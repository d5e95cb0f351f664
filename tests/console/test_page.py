"""The page in a real browser, against a real broker: every page clicked through, in light and dark,
with hostile data, on a phone, by keyboard. An error or warning of the browser fails the test."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.console.access.user import Users, hash_password
from headrace.console.server import ConsoleServer
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import wait_until
from testkit.peer.browser import strict_page
from testkit.sample.console_site import (
    EVERY_LEGAL_CHARACTER,
    HOSTILE_GROUP,
    LIVE_FLOW,
    SCRIPT,
    ConsoleSite,
    console_site,
)

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
PAGES = {
    "overview": "/overview",
    "topics": "/topics",
    "messages": "/topics/page-views",
    "partitions": "/topics/page-views/partitions",
    "readers": "/topics/page-views/groups",
    "configuration": "/topics/page-views/config",
    "groups": "/groups",
    "group": "/groups/search-index",
    "flows": "/flows",
    "agents": "/agents",
    "audit": "/audit",
    "streams": "/streams",
    "tables": "/tables",
}
# Tables and charts as on the others, in the other colours too.
MADE_OF_THE_SAME = ("topics", "partitions", "readers", "group")
SIZE = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 800}
# A Spark session of its own, on a machine with other things to do.
FLOW_SECONDS = 400.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    with console_site(tmp_path_factory.mktemp("console-site")) as started:
        yield started


@pytest.fixture(scope="module")
def shared_page(browser: Any, site: ConsoleSite) -> Iterator[Page]:
    with strict_page(browser, site.server.url, viewport=SIZE) as opened:
        yield opened


@pytest.fixture
def page(shared_page: Page) -> Page:
    """The page that all tests share, without the dialogs that the last test left open."""
    expect(shared_page.locator("#main")).to_be_attached()
    shared_page.evaluate("document.querySelectorAll('dialog').forEach((each) => each.close())")
    go(shared_page, "/nowhere")
    expect(shared_page.get_by_role("heading", name="Overview")).to_be_visible()
    return shared_page


def go(page: Page, path: str) -> None:
    page.evaluate("path => { location.hash = path }", path)


def test_the_overview_shows_the_cluster(page: Page) -> None:
    expect(page.locator(".tile").nth(0)).to_contain_text("KiB/s")
    expect(page.locator(".tile").nth(2)).to_contain_text("partitions")
    page.get_by_role("group", name="Measured in").get_by_role("button", name="bytes").click()
    expect(page.get_by_label("Throughput per second: written")).to_have_attribute(
        "aria-label", re.compile("KiB")
    )
    page.get_by_role("button", name="Configuration of broker 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("log.retention.ms", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_the_picture_leads_from_sources_to_sinks(page: Page) -> None:
    picture = page.locator(".picture")
    for kind, name in (
        ("agent", "collector"),
        ("topic", "access-log"),
        ("flow", "page-count"),
        ("flow", "land-page-views"),
        ("sink", "page-views"),
        ("group", "ad-billing"),
        ("source", "producers"),
    ):
        shown = picture.locator(f"rect.{kind} + text").filter(has_text=name)
        expect(shown.first).to_be_visible()
    # The flow's group, and the internal group of its sink, are not drawn beside it.
    expect(picture.locator("rect.group + text").filter(has_text="page-count")).to_have_count(0)
    expect(picture.locator("text.flow").first).to_contain_text("/s")
    picture.get_by_role("link").filter(has_text="ad-billing").first.click()
    expect(page.get_by_role("heading", name="ad-billing")).to_be_visible()


def test_a_topic_is_found_and_its_records_read(page: Page) -> None:
    page.get_by_role("link", name="Topics", exact=True).click()
    page.get_by_label("Filter topics by name").fill("views")
    page.get_by_role("region", name="Topics").get_by_role("link", name="page-views").click()
    expect(page.locator(".messages li")).to_have_count(50)
    page.locator(".messages summary").first.click()
    expect(page.locator(".open pre")).to_contain_text('"page":')
    page.get_by_role("button", name="HEX").click()
    expect(page.locator(".open pre")).to_contain_text("00000000  7b 22")


def test_records_are_searched_by_text_and_by_path(page: Page) -> None:
    go(page, "/topics/page-views")
    page.get_by_label("Text to look for").fill("pricing")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".messages .preview").first).to_contain_text("/pricing")
    page.get_by_label("Text to look for").fill("")
    page.get_by_text("JSON path").click()
    page.get_by_label("Path", exact=True).fill("status")
    page.get_by_label("Equals").fill("500")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("status").filter(has_text="Nothing found")).to_be_visible()


def test_records_are_exported(page: Page) -> None:
    go(page, "/topics/hostile")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 5
    assert download.value.suggested_filename == "hostile.jsonl"


def test_a_produced_record_shows_up_in_the_live_tail(page: Page) -> None:
    go(page, "/topics/alerts")
    page.get_by_role("button", name="Live tail").click()
    expect(page.get_by_text("Waiting for new records")).to_be_visible()
    page.get_by_role("button", name="Produce").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key").fill("page-7")
    dialog.get_by_label("Value", exact=True).fill('{"failing": true}')
    dialog.get_by_label("Headers, one per line").fill("by: hand")
    dialog.get_by_role("button", name="Produce").click()
    expect(page.locator(".messages .key").first).to_have_text("page-7")
    page.get_by_role("button", name="Stop").click()


def test_a_request_that_is_cut_off_within_its_body_has_no_answer(page: Page) -> None:
    go(page, "/topics")
    outcome = page.evaluate("""async () => {
        const { ask } = await import("/static/api.js");
        const stop = new AbortController();
        const body = new ReadableStream({
            start: (bytes) =>
                stop.signal.addEventListener("abort", () => bytes.error(stop.signal.reason)),
        });
        const fetched = window.fetch;
        window.fetch = async () => {
            setTimeout(() => stop.abort());
            return new Response(body);
        };
        try {
            return await ask("topics", { signal: stop.signal });
        } catch (error) {
            return error.name;
        } finally {
            window.fetch = fetched;
        }
    }""")
    assert outcome == "AbortError"


def test_a_topic_lives_from_its_making_to_its_end(page: Page) -> None:
    go(page, "/topics")
    page.get_by_role("button", name="New topic").click()
    page.get_by_role("dialog").get_by_label("Name").fill("short-lived")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="short-lived")).to_be_visible()
    page.get_by_role("link", name="Configuration").click()
    page.get_by_role("button", name="Change retention.ms").click()
    page.get_by_role("textbox", name="Value").fill("7200000")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".entry.set").get_by_text("7200000")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    gone = page.get_by_role("button", name="Delete for ever")
    expect(gone).to_be_disabled()
    page.get_by_label("Type the topic's name to confirm").fill("short-lived")
    gone.click()
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()


def test_offsets_are_reset_after_a_preview(page: Page, site: ConsoleSite) -> None:
    go(page, "/groups")
    page.get_by_role("link", name="mailing-list").click()
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("Go to").select_option("shift")
    page.get_by_label("Records (negative goes back)").fill("-50")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("3 partitions of 3 would move.")).to_be_visible()
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.get_by_text("are set.")).to_be_visible()
    with ConnectionPool(site.settings) as pool:
        assert set(GroupAdmin(pool).offsets("mailing-list").values()) == {850}


def test_internal_groups_are_shown_on_request(page: Page) -> None:
    go(page, "/groups")
    groups = page.get_by_role("region", name="Consumer groups")
    expect(groups.get_by_role("link", name="page-count", exact=True)).to_be_visible()
    expect(groups.get_by_role("link", name="headrace-sink-page-count-1f")).to_have_count(0)
    page.get_by_label("internal groups").check()
    expect(groups.get_by_role("link", name="headrace-sink-page-count-1f")).to_be_visible()


def test_hostile_data_is_only_text(page: Page) -> None:
    go(page, "/topics/hostile")
    expect(page.locator(".messages li")).to_have_count(5)
    for line in page.locator(".messages summary").all():
        line.click()
    expect(page.locator(".open pre")).to_have_count(5)
    expect(page.locator(".open pre").filter(has_text=SCRIPT).first).to_be_visible()
    expect(page.locator(".open .problem:visible")).to_contain_text("Too long to show")
    expect(page.locator(".open .headers dd").filter(has_text=SCRIPT).first).to_be_visible()
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script").count() == 0


def test_names_of_any_kind_have_their_page(page: Page) -> None:
    go(page, f"/topics/{EVERY_LEGAL_CHARACTER}")
    expect(page.get_by_role("heading", name=EVERY_LEGAL_CHARACTER)).to_be_visible()
    expect(page.locator(".messages .key")).to_have_text("a key")
    go(page, "/groups")
    page.get_by_role("link", name=HOSTILE_GROUP).click()
    expect(page.get_by_role("heading", name=HOSTILE_GROUP)).to_be_visible()
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(3)


def test_the_audit_flags_what_was_lost(page: Page) -> None:
    go(page, "/audit")
    expect(page.get_by_role("status").get_by_text("7 lost")).to_be_visible()
    page.get_by_label("only what is below 100 %").check()
    rows = page.get_by_role("region", name="Counts per topic and bucket").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.locator(".below")).to_contain_text("99.942 %")


def test_a_stream_shows_its_shards_over_time(page: Page) -> None:
    go(page, "/streams")
    card = page.get_by_role("region", name="Stream page-views")
    expect(card).to_contain_text("2 open shards, 1 closed")
    expect(card.locator(".shard")).to_have_count(3)
    expect(card.locator(".shard.open")).to_have_count(2)
    expect(card.get_by_role("row", name=re.compile("shardId-000000000002"))).to_contain_text(
        re.compile(r"50\s%\sto\s100\s%")
    )


def test_tables_of_topics_show_their_rows_and_what_is_wrong(page: Page) -> None:
    go(page, "/tables")
    rows = page.get_by_role("region", name="Tables").locator("tbody tr")
    expect(rows).to_have_count(3)
    landing = rows.filter(has_text="iceberg:lake.web.searches")
    expect(landing).to_contain_text("1,000")
    expect(landing.locator(".badge")).to_have_text("landing")
    expect(landing).to_contain_text(re.compile("all until .* ago"))
    failing = rows.filter(has_text="delta:ads/impressions")
    expect(failing.locator(".badge")).to_have_text("failing")
    expect(failing.locator(".why")).to_contain_text(f"cannot be written: {SCRIPT}")
    expect(rows.filter(has_text="lake.web.profiles").locator(".badge")).to_have_text("no process")
    landing.get_by_role("link", name="searches").click()
    expect(page.locator(".facts")).to_contain_text("lands in iceberg:lake.web.searches, 1,000 rows")


def test_a_flow_shows_its_graph_its_batches_and_its_tables(page: Page, site: ConsoleSite) -> None:
    go(page, "/flows")
    flow = page.get_by_role("region", name="Flow page-count")
    expect(flow.locator(".picture .name")).to_have_text(["views", "by-page", "counts"])
    rising = flow.get_by_role("region", name="Rising pages").locator("tbody tr")
    expect(rising.nth(0).get_by_role("img", name="rising")).to_be_visible()
    expect(rising.nth(1).get_by_role("img", name="falling")).to_be_visible()
    expect(rising.nth(2)).to_contain_text(SCRIPT)
    expect(rising.nth(2).get_by_role("img")).to_have_count(0)
    site.figures.hold(batch=123456, batch_ms=350, records=41)
    expect(flow.get_by_text("Batch 123,456: 41 records in 350 ms")).to_be_visible()
    expect(
        flow.get_by_role("img", name="Batch times of page-count: a batch 350 ms")
    ).to_be_visible()
    # It runs in no process that the console could signal.
    expect(flow.get_by_role("button", name="Stop")).to_have_count(0)


def test_an_agent_shows_its_flow_and_how_full_its_channels_are(page: Page) -> None:
    go(page, "/agents")
    agent = page.get_by_role("region", name="Agent collector")
    expect(agent.locator(".picture")).to_have_attribute("aria-label", re.compile("channel stuck"))
    expect(agent.get_by_label("Fill of channel stuck")).to_have_attribute("value", "75")
    expect(agent.get_by_text("75.0 % · 300 of 400")).to_be_visible()
    expect(agent.get_by_label("Fill of channel quick")).to_have_attribute("value", "0")
    agent.get_by_role("link").filter(has_text="topic").click()
    expect(page.get_by_role("heading", name="access-log")).to_be_visible()


@pytest.mark.timeout(1200)
def test_a_live_flow_is_restarted_and_stopped(page: Page, site: ConsoleSite) -> None:
    live = site.flow
    assert live is not None
    wait_until(
        lambda: _has_flow(site, live.pid) or not live.running,
        what="the flow",
        timeout_seconds=FLOW_SECONDS,
    )
    assert live.running, live.said
    go(page, "/flows")
    flow = page.get_by_role("region", name=f"Flow {LIVE_FLOW}")
    expect(flow.locator(".picture .name")).to_have_text(["lines", "shout", "out"])

    flow.get_by_role("button", name=f"Restart {LIVE_FLOW}").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart").click()
    restarted = page.get_by_text(f"{LIVE_FLOW} is restarted.")
    expect(restarted).to_be_visible(timeout=FLOW_SECONDS * 1000)
    before = _written(site, "loud-alerts")
    producer = Producer({"bootstrap.servers": str(site.settings.bootstrap[0])})
    producer.produce("alerts", "after the restart")
    assert producer.flush(60) == 0
    wait_until(
        lambda: _written(site, "loud-alerts") > before or not live.running,
        what="what the restarted flow writes",
        timeout_seconds=FLOW_SECONDS,
    )
    assert live.running, live.said

    flow.get_by_role("button", name=f"Stop {LIVE_FLOW}").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(flow).to_have_count(0, timeout=FLOW_SECONDS * 1000)
    assert live.ended(FLOW_SECONDS) == 0, live.said
    assert live.said.rstrip().endswith("Stopped.")


def _written(site: ConsoleSite, topic: str) -> int:
    return site.server.state.cluster_poller.snapshot.ends[TopicPartition(topic, 0)]


def _has_flow(site: ConsoleSite, pid: int) -> bool:
    return any(each.pid == pid for each in site.server.state.status_poller.flows)


def test_the_keyboard_is_enough(page: Page) -> None:
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter topics by name")).to_be_focused()
    page.get_by_label("Filter topics by name").blur()
    dark = page.locator("html").get_attribute("data-theme") == "dark"
    page.keyboard.press("d")
    expect(page.locator("html")).to_have_attribute("data-theme", "light" if dark else "dark")
    page.keyboard.press("d")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


def test_a_viewer_logs_in_and_cannot_change_anything(browser: Any, site: ConsoleSite) -> None:
    users = Users(f"vic:viewer:{hash_password('long enough')}")
    settings = replace(site.server.state.settings, users=users, agents={}, flows={})
    with ExitStack() as opened:
        server = opened.enter_context(ConsoleServer(settings))
        wait_until(
            lambda: server.state.cluster_poller.problem is None,
            what="the first snapshot",
            timeout_seconds=120,
        )
        page = opened.enter_context(strict_page(browser, f"{server.url}#/topics/alerts"))
        page.get_by_label("Name").fill("vic")
        page.get_by_label("Password").fill("long enough")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="alerts")).to_be_visible()
        expect(page.get_by_role("button", name="Produce")).to_have_count(0)
        expect(page.get_by_role("button", name="Delete")).to_have_count(0)
        page.get_by_role("button", name="Log out vic").click()
        expect(page.get_by_label("Password")).to_be_visible()


LOADED = "() => document.querySelector('#main tbody tr, #main .card, #main li') !== null"
FITS = "width => document.scrollingElement.scrollWidth <= width"
RUN_AXE = """async ([place, rules]) => {
  const options = {resultTypes: ["violations"], ...(rules ? {runOnly: rules} : {})};
  const found = await axe.run(document.querySelector(place), options);
  return found.violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))]);
}"""


def test_every_page_is_accessible_in_light_and_dark_and_fits_a_phone(page: Page) -> None:
    page.evaluate(AXE.read_text())
    for name, path in PAGES.items():
        go(page, path)
        expect(page.locator("#main h1")).to_be_visible()
        page.wait_for_function(LOADED)
        # Around the page it is the same everywhere.
        place = "html" if name == "overview" else "#main"
        found = page.evaluate(RUN_AXE, [place, None])
        assert found == [], f"{name}: {json.dumps(found, indent=1)}"
        if name not in MADE_OF_THE_SAME:
            page.evaluate("document.querySelector('#theme').click()")
            # The other theme has other colours, and nothing else.
            found = page.evaluate(RUN_AXE, [place, ["color-contrast"]])
            assert found == [], f"{name}, other colours: {json.dumps(found, indent=1)}"
        page.set_viewport_size(PHONE)
        page.wait_for_function(FITS, arg=PHONE["width"])
        page.set_viewport_size(SIZE)
