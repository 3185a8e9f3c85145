"""The page, in headless Chromium: as a visitor types, slides and reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

expect = playwright.expect
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look with")
HITS = "#hits .hit"


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.fixture
def page(browser, served) -> Iterator:
    """A page that fails the test where a script of it fails, or the policy is broken."""
    context = browser.new_context(base_url=served.address)
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    opened.goto("/")
    opened.wait_for_selector("body[data-ready]")
    opened.faults = faults
    yield opened
    context.close()
    assert faults == []


def search(page, text: str) -> list[str]:
    """Type, and wait for what is found."""
    page.fill("#query", text)
    with page.expect_response("**/search"):
        page.locator("#query").dispatch_event("input")
    page.wait_for_selector(HITS)
    return page.locator(f"{HITS} .text").all_inner_texts()


def test_typing_gives_results_with_their_scores_and_stages(page) -> None:
    page.locator("#query").press_sequentially("how do I merge two dictionaries")
    expect(page.locator("#hits .text").first).to_contain_text("To merge two")
    assert "cosine" in page.locator(HITS).first.inner_text()
    stages = page.locator("#stage-list").inner_text()
    assert "encode" in stages
    assert "ms" in stages
    assert "no cross-encoder" in page.locator("#depth-found").inner_text()


def test_the_slider_changes_depth_and_time(page) -> None:
    search(page, "how do I merge two dictionaries")
    fast = page.locator("#stage-list").inner_text()
    page.locator("#depth").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#dots .read").nth(5)).to_be_attached()
    assert page.locator("#depth").get_attribute("aria-valuetext") == "cross-encoder within 1600 ms"
    deep = page.locator("#stage-list").inner_text()
    assert "rerank" in deep
    assert "rerank" not in fast
    first = page.locator(HITS).first.inner_text()
    assert "cross-encoder" in first
    assert "cosine" in first


def test_a_script_in_a_document_stays_text(page) -> None:
    texts = search(page, "a script tag stays text")
    assert any(text.startswith("<script>document.title") for text in texts)
    assert page.title() == "sbert-retriever"
    assert page.locator("#hits script").count() == 0


def test_the_policy_lets_nothing_else_run(page) -> None:
    policy = page.request.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    ran, broken = page.evaluate(
        """async () => {
          let broken = 0;
          document.addEventListener("securitypolicyviolation", () => broken++);
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          await new Promise((done) => setTimeout(done, 200));
          return [window.ran ?? false, broken];
        }"""
    )
    assert (ran, broken) == (False, 1)
    assert len(page.faults) == 1
    page.faults.clear()


def test_arabic_runs_from_right_to_left(page) -> None:
    search(page, "إرجاع المنتج")
    found = page.locator(f"{HITS} .text", has_text="يمكنك إرجاع المنتج").first
    assert found.evaluate("e => getComputedStyle(e).direction") == "rtl"
    assert page.locator("#query").evaluate("e => getComputedStyle(e).direction") == "rtl"
    page.fill("#query", "plain words")
    assert page.locator("#query").evaluate("e => getComputedStyle(e).direction") == "ltr"


def test_the_keyboard_is_enough(page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#tab-try").focus()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type("chapter about threads")
    page.wait_for_selector(HITS)
    page.keyboard.press("Enter")
    page.locator(HITS).first.focus()
    page.keyboard.press("ArrowDown")
    assert (
        page.evaluate("[...document.querySelectorAll('.hit')].indexOf(document.activeElement)") == 1
    )
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "query"
    page.locator("#tab-try").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#panel-paper").is_visible()
    assert page.evaluate("document.activeElement.id") == "tab-paper"


def ask(page, question: str):
    before = page.locator(".turn.bot").count()
    page.fill("#question", question)
    page.keyboard.press("Enter")
    expect(page.locator(".turn.bot")).to_have_count(before + 1)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page.locator(".turn.bot").last


def test_the_faq_answers_takes_thumbs_and_says_when_it_does_not_know(page) -> None:
    turn = ask(page, "What is your refund policy?")
    assert "within 30 days" in turn.inner_text()
    assert turn.locator("a").all_inner_texts() == ["https://example.org/returns"]
    thumb = turn.get_by_role("button", name="It answers my question")
    with page.expect_response("**/faq/feedback") as kept:
        thumb.click()
    assert kept.value.status == 201
    page.wait_for_selector(".thumbs [aria-pressed=true]")
    lost = ask(page, "who won the world cup in 1954?")
    assert "unsure" in lost.get_attribute("class")
    assert "I don\u2019t know." in lost.inner_text()
    arabic = ask(page, "كيف يمكنني إرجاع منتج؟")
    assert arabic.locator("p").evaluate("e => getComputedStyle(e).direction") == "rtl"


def test_there_are_no_thumbs_where_no_feedback_is_kept(page) -> None:
    """Each was answered with an error."""

    def without_log(route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "faq_feedback": False})

    page.route("**/page/facts", without_log)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    turn = ask(page, "What is your refund policy?")
    assert "matched" in turn.inner_text()
    assert turn.locator(".thumbs").count() == 0


def test_the_paper_counts_passes_and_measures_this_machine(page) -> None:
    page.click("#tab-paper")
    assert page.locator("#n-said").inner_text() == "10,000"
    assert page.locator("#cross-passes").inner_text() == "49,995,000"
    assert page.locator("#bi-passes").inner_text() == "10,000"
    if page.locator("#measure").is_visible():  # it was not measured before
        page.click("#measure")
    page.wait_for_selector("#scale", timeout=60_000)
    assert "all-MiniLM-L6-v2" in page.locator("#measured").inner_text()
    before = page.locator("#cross-time").inner_text()
    assert before != "\u2013"
    page.locator("#n").fill("5")
    assert page.locator("#cross-passes").inner_text() == "4,999,950,000"
    assert page.locator("#cross-time").inner_text() != before


def test_who_has_no_key_can_leave_the_dialog(browser, locked) -> None:
    """It kept an empty key, which was refused, and was there again at once."""
    context = browser.new_context(base_url=locked.address)
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.goto("/")
    page.wait_for_selector("#key-dialog[open]")
    page.keyboard.press("Enter")
    assert page.locator("#key-dialog[open]").count() == 1  # nothing is no key
    page.keyboard.press("Escape")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "An API key is wanted" in page.locator("#trouble").inner_text()
    assert page.locator("#key-dialog[open]").count() == 0
    assert page.evaluate("sessionStorage.length") == 0
    page.reload()
    page.wait_for_selector("#key-dialog[open]")
    page.fill("#key", locked.key)
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#trouble").is_hidden()
    context.close()


def test_sentences_are_compared_by_three_poolings(page, minilm) -> None:
    """The mean is that of the model itself; the others differ."""
    page.click("#tab-paper")
    page.wait_for_selector(".pooling")
    titles = page.locator(".pooling h3").all_inner_texts()
    assert [title.split()[0] for title in titles] == ["Mean", "Max", "CLS"]
    assert "as trained" in titles[0]
    fields = page.locator("#pooling-form input")
    texts = [fields.nth(n).input_value() for n in range(4)]
    vectors = minilm.encode_passages(texts)
    shown = page.locator(".pooling").first.locator("td").all_inner_texts()
    assert f"{vectors[0] @ vectors[1]:.2f}" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(page, scheme: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme=scheme)
    search(page, "chapter about regular-expressions")
    for tab in ("#tab-try", "#tab-paper"):
        page.click(tab)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    lightness = page.evaluate("getComputedStyle(document.body).backgroundColor")
    parts = [int(part) for part in lightness.strip("rgb()").split(",")]
    assert (sum(parts) < 200) is (scheme == "dark")
