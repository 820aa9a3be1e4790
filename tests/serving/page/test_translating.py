"""Translating on the page: typing, forcing tokens, comparing runs, and errors."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NEXT_PAINT = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


# --- typing ----------------------------------------------------------------------------------------------


def test_typed_text_is_translated_without_a_reload(window: Any, expect: Any):
    window.open(text="abc")
    window.page.evaluate("window.wasNotReloaded = true")
    window.page.get_by_label("Text to translate").press_sequentially("de")
    expect(window.panel().locator(".translation")).to_have_text("abcde")
    assert [window.names(side) for side in window.labels()] == [[*"abcde", "<end>"]] * 2
    assert window.page.evaluate("window.wasNotReloaded")
    assert ("text", "abcde") in window.fields()


def test_an_empty_text_shows_a_hint(window: Any, expect: Any):
    window.open(text="abc")
    window.type("")
    expect(window.panel()).to_contain_text("Enter a text to translate.")
    expect(window.panel().get_by_role("tab", name="Map")).to_be_hidden()


def test_fast_typing_sends_one_request(window: Any, expect: Any):
    window.open(text="a")
    sent = []
    window.page.on("request", lambda request: "translate" in request.url and sent.append(request.post_data_json))
    window.page.evaluate(
        """() => ["ab", "abc", "abcd"].forEach((typed) => {
          const text = document.getElementById("text");
          text.value = typed;
          text.dispatchEvent(new Event("input"));
        })"""
    )
    expect(window.panel().locator(".translation")).to_have_text("abcd")
    assert [body["texts"] for body in sent] == [["abcd"]]


@pytest.fixture
def held_requests(window: Any) -> list[Any]:
    """The first request, which gets no response until the test continues it."""
    window.open(text="e")
    held: list[Any] = []
    window.page.route("**/api/translate", lambda route: held.append(route) if not held else route.continue_())
    return held


def test_a_late_response_to_an_earlier_text_is_not_shown(held_requests: list[Any], window: Any, expect: Any):
    with window.page.expect_request("**/api/translate"):
        window.page.locator("#text").fill("a")
    with window.page.expect_event("requestfailed") as aborted:
        window.type("abc")
    assert aborted.value.post_data_json["texts"] == ["a"]
    expect(window.panel().locator(".translation")).to_have_text("abc")
    held_requests[0].fulfill(json={"translations": [window.translate("a")]})
    window.page.evaluate(NEXT_PAINT)
    assert window.panel().locator(".translation").inner_text() == "abc"


def test_a_panel_stays_busy_while_the_user_types(held_requests: list[Any], window: Any, expect: Any):
    window.page.clock.install(time="2030-01-01")
    window.page.clock.pause_at("2030-01-02")  # timers run only with run_for
    with window.page.expect_request("**/api/translate"):
        window.page.locator("#text").fill("ab")
        window.page.clock.run_for(1000)
    window.page.locator("#text").fill("abc")
    held_requests[0].continue_()
    expect(window.panel().locator(".translation")).to_have_text("ab")
    expect(window.panel()).to_have_attribute("aria-busy", "true")
    window.page.clock.run_for(1000)
    expect(window.panel().locator(".translation")).to_have_text("abc")
    expect(window.panel()).to_have_attribute("aria-busy", "false")


def test_example_buttons_translate_their_sentence(window: Any, expect: Any):
    window.open()
    examples = window.page.request.get(f"{window.url}api/runs").json()["runs"][0]["examples"]
    expect(window.page.locator("#text")).to_have_value(examples[0])
    expect(window.page.locator("#examples button")).to_have_text(examples)
    window.page.locator("#examples button").last.click()
    window.wait_until_idle()
    expect(window.page.locator("#text")).to_have_value(examples[-1])
    expect(window.panel().locator(".translation")).to_have_text(window.translate(examples[-1])["text"])


# --- tokens and their alternatives -----------------------------------------------------------------------


def percent(probability: float) -> str:
    if 0 < probability < 0.001:
        return "< 0.1%"
    return f"{100 * probability:.1f}%" if probability < 0.01 else f"{100 * probability:.0f}%"


def test_a_token_shows_its_probability_and_its_alternatives(window: Any, expect: Any):
    window.open(run="heads", text="abd")
    best = window.translate("abd", "heads")["n_best"][0]
    buttons = window.panel().get_by_role("list", name="output tokens").get_by_role("button")
    for index, label in enumerate(best["labels"]):
        expect(buttons.nth(index)).to_have_accessible_name(
            f"{label} {percent(math.exp(best['log_probabilities'][index]))}"
        )
    buttons.nth(1).click()
    options = window.panel().get_by_role("listbox", name=f"alternatives to {best['labels'][1]}").get_by_role("option")
    expected = [f"{each['label']}{percent(each['probability'])}" for each in best["alternatives"][1]]
    assert len(expected) > 4
    expect(options).to_have_text(expected)
    chosen = options.evaluate_all("(all) => all.map((option) => option.ariaSelected)")
    assert chosen == ["true" if each["token"] == best["tokens"][1] else "false" for each in best["alternatives"][1]]


def test_a_forced_token_changes_the_rest_until_it_is_released(window: Any, expect: Any):
    window.open(run="heads", text="abcde")
    free = window.translate("abcde", "heads")["n_best"][0]
    prefix = [free["tokens"][0], "d"]
    best = window.translate("abcde", "heads", prefix=prefix)["n_best"][0]
    assert best["tokens"][2:] != free["tokens"][2:]
    window.choose_alternative(1, "d")
    buttons = window.panel().locator(".tokens button")
    expect(window.panel().locator(".translation")).to_have_text(best["text"])
    expect(window.panel().locator(".tokens .label")).to_have_text(best["labels"])
    forced = buttons.evaluate_all("(all) => all.map((word) => word.ariaLabel.endsWith(', forced'))")
    assert forced == [index < 2 for index in range(len(best["labels"]))]
    expect(window.panel().locator(".tokens .forced")).to_have_count(2)
    expect(buttons.nth(1)).to_be_focused()
    assert [value for name, value in window.fields() if name == "prefix"] == prefix

    window.panel().get_by_role("button", name="Remove forced tokens").click()
    expect(window.panel().locator(".translation")).to_have_text(free["text"])
    expect(window.panel().locator(".tokens .forced")).to_have_count(0)
    assert "prefix" not in dict(window.fields())


def test_an_end_can_be_forced(window: Any, expect: Any):
    window.open(text="abcde")
    window.choose_alternative(2, "<end>")
    expect(window.panel().locator(".translation")).to_have_text("ab")
    expect(window.panel().locator(".tokens .forced .label")).to_have_text(["a", "b", "<end>"])


def test_a_new_text_releases_forced_tokens(window: Any, expect: Any):
    window.open(text="abcde")
    window.choose_alternative(0, "c")
    window.type("abc")
    expect(window.panel().locator(".translation")).to_have_text("abc")
    expect(window.panel().locator(".forced")).to_have_count(0)


def test_forced_tokens_stay_when_comparing_and_with_a_wider_beam(window: Any, expect: Any):
    window.open(run="heads", text="abcde")
    window.choose_alternative(0, "c")
    window.page.get_by_label("Compare with").select_option("copies")
    window.wait_until_idle()
    expect(window.panel(1).locator(".translation")).to_have_text("abcde")
    expect(window.panel(0).locator(".tokens .forced .label")).to_have_text(["c"])
    window.page.get_by_label("Beam width").fill("3")
    window.wait_until_idle()
    best = window.translate("abcde", "heads", beam=3, prefix=["c"])["n_best"][0]
    expect(window.panel(0).locator(".translation")).to_have_text(best["text"])
    expect(window.panel(0).locator(".tokens .forced .label")).to_have_text(["c"])


def test_releasing_forced_tokens_keeps_the_focus_and_resets_the_rank(window: Any, expect: Any):
    window.open(run="heads", text="abd", beam=3, rank=2, prefix="c")
    window.panel().get_by_role("button", name="Remove forced tokens").click()
    expect(window.panel().locator(".tokens button").first).to_be_focused()
    assert not {"rank", "prefix"} & set(dict(window.fields()))


def test_a_beam_above_the_limit_is_an_error_and_stays_in_the_url(window: Any, expect: Any):
    window.expected_errors.append("422")
    window.open(text="abc", beam=51)
    expect(window.panel().get_by_role("alert")).to_contain_text("beam: 51 is above this server's limit of 50")
    assert dict(window.fields())["beam"] == "51"


def test_a_rank_that_does_not_exist_is_removed_from_the_url(window: Any):
    window.open(text="abc", beam=2, rank=99)
    assert int(dict(window.fields()).get("rank", 1)) <= 2


def test_an_invalid_forced_token_can_be_released(window: Any, expect: Any):
    window.expected_errors.append("422")
    window.open(text="abc", prefix="x")
    expect(window.panel().get_by_role("alert")).to_contain_text("'x'")
    window.panel().get_by_role("button", name="Remove forced tokens").click()
    expect(window.panel().locator(".translation")).to_have_text("abc")
    expect(window.panel().get_by_role("alert")).to_be_hidden()


def test_another_hypothesis_can_be_selected(window: Any, expect: Any):
    window.open(run="heads", text="abd", beam=3, penalty=1.5)
    third = window.translate("abd", "heads", beam=3, length_penalty=1.5)["n_best"][2]
    ranks = window.panel().get_by_label("n-best list")
    expect(ranks.locator("option")).to_have_count(3)
    expect(window.panel().locator(".facts")).to_contain_text("ranked by score / ((5 + length) / 6)^1.5")
    ranks.select_option("2")
    expect(window.panel().locator(".tokens .label")).to_have_text(third["labels"])
    expect(window.panel().locator(".translation")).to_have_text(third["text"])
    expect(ranks).to_be_focused()
    assert ("rank", "3") in window.fields()


# --- two runs --------------------------------------------------------------------------------------------


def test_two_runs_translate_the_same_text_side_by_side(window: Any, expect: Any):
    window.open(text="abd")
    window.page.get_by_label("Compare with").select_option("heads")
    window.wait_until_idle()
    for text in ("abd", "edc"):
        window.type(text)
        for number, run in enumerate(("copies", "heads")):
            panel = window.panel(number)
            expect(panel.get_by_role("heading")).to_have_text(run)
            expect(panel.locator(".translation")).to_have_text(window.translate(text, run)["text"])
            assert window.names(window.labels(number)[1]) == [*text, "<end>"]
    boxes = [window.panel(number).bounding_box() for number in (0, 1)]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    assert boxes[0]["y"] == boxes[1]["y"]


def test_a_source_token_under_the_pointer_is_highlighted_in_both_runs(window: Any, expect: Any):
    window.open(text="abd", other="heads")
    window.point_at(0, 2)
    _, columns = window.labels(1)
    expect(columns.nth(2)).to_have_class("token highlighted")
    expect(window.panel(1).locator(".highlighted")).to_have_count(1)


def test_a_view_is_opened_in_both_runs(window: Any, expect: Any):
    window.open(text="abd", other="heads")
    window.panel(1).get_by_role("tab", name="Beam").click()
    for number in (0, 1):
        expect(window.panel(number).locator(".tree")).to_be_visible()


def test_a_run_without_attention_shows_a_note(window: Any, expect: Any):
    window.open(text="abd", other="no-attention")
    expect(window.panel(1)).to_contain_text("This model has no attention")
    expect(window.panel(1).locator(".map, .heads")).to_have_count(0)
    expect(window.panel(1).get_by_role("button", name="CSV")).to_have_count(0)
    expect(window.panel(1).locator(".tokens button")).not_to_have_count(0)
    expect(window.panel(0).locator(".map")).to_be_visible()


# --- errors ----------------------------------------------------------------------------------------------


def test_an_error_of_one_run_leaves_the_other_alone(window: Any, expect: Any, scripts_name: str):
    window.expected_errors.append("422")
    window.open(text="abc", other=scripts_name)
    held: list[Any] = []

    def hold_the_first_run(route: Any) -> None:
        held.append(route) if route.request.post_data_json["run"] == "copies" else route.continue_()

    window.page.route("**/api/translate", hold_the_first_run)
    window.page.locator("#text").fill("attention")
    expect(window.panel(1)).to_have_attribute("aria-busy", "false")
    held[0].continue_()
    window.wait_until_idle()
    window.page.unroute("**/api/translate")
    expect(window.panel(0).get_by_role("alert")).to_contain_text("this task was not trained on the character 't'")
    expect(window.panel(0).locator(".translation")).to_be_hidden()
    expect(window.panel(1).locator(".translation")).to_have_text(window.translate("attention", scripts_name)["text"])
    expect(window.panel(1).get_by_role("alert")).to_be_hidden()
    window.type("abc")
    expect(window.panel(0).get_by_role("alert")).to_be_hidden()
    expect(window.panel(0).locator(".translation")).to_have_text("abc")


@pytest.mark.parametrize("status", [429, 503])
def test_a_request_to_a_busy_server_is_retried(window: Any, expect: Any, status: int):
    window.expected_errors.append(str(status))
    window.open(text="a")
    window.page.clock.install(time="2030-01-01")
    window.page.clock.pause_at("2030-01-02")  # timers run only with run_for
    sent: list[str] = []

    def respond_busy(route: Any) -> None:
        sent.append(route.request.url)
        busy = {"detail": f"busy {len(sent)}"}
        route.fulfill(status=status, json=busy, headers={"Retry-After": "3"})

    window.page.route("**/api/translate", respond_busy, times=2)
    window.page.locator("#text").fill("abc")
    window.page.clock.run_for(1000)
    for attempt in (1, 2):
        expect(window.panel().get_by_role("alert")).to_have_text(f"busy {attempt}")
        window.page.clock.run_for(2900)
        assert len(sent) == attempt, "no retry before Retry-After"
        window.page.clock.run_for(200)
    expect(window.panel().locator(".translation")).to_have_text("abc")
    expect(window.panel().get_by_role("alert")).to_be_hidden()


def test_an_unreachable_server_is_reported(window: Any, expect: Any):
    window.expected_errors.append("ERR_FAILED")
    window.open(text="a")
    window.page.route("**/api/translate", lambda route: route.abort())
    window.type("abc")
    expect(window.panel().get_by_role("alert")).to_have_text("The server cannot be reached. Is it still running?")


def test_an_unknown_run_in_the_url_is_reported(window: Any, expect: Any):
    window.open(text="abc", run="moved away")
    expect(window.page.locator("#problem")).to_have_text("This server has no run called moved away.")
    expect(window.panel().get_by_role("heading")).to_have_text("copies")
