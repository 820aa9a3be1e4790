"""The page in a real browser: type, point, choose, compare."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NEXT_PAINT = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


# --- typing ----------------------------------------------------------------------------------------------


def test_what_is_typed_is_translated_without_a_reload(window: Any, expect: Any):
    window.open(text="abc")
    window.page.evaluate("window.isTheSame = true")
    window.page.get_by_label("Sentence to translate").press_sequentially("de")
    expect(window.panel().locator(".translation")).to_have_text("abcde")
    assert [window.names(side) for side in window.labels()] == [[*"abcde", "<end>"]] * 2
    assert window.page.evaluate("window.isTheSame")
    assert ("text", "abcde") in window.told()


def test_without_a_text_one_is_asked_for(window: Any, expect: Any):
    window.open(text="abc")
    window.type("")
    expect(window.panel()).to_contain_text("Type a sentence to translate it.")
    expect(window.panel().get_by_role("tab", name="Map")).to_be_hidden()


def test_who_types_fast_asks_once(window: Any, expect: Any):
    window.open(text="a")
    asked = []
    window.page.on("request", lambda request: "translate" in request.url and asked.append(request.post_data_json))
    window.page.evaluate(
        """() => ["ab", "abc", "abcd"].forEach((typed) => {
          const text = document.getElementById("text");
          text.value = typed;
          text.dispatchEvent(new Event("input"));
        })"""
    )
    expect(window.panel().locator(".translation")).to_have_text("abcd")
    assert [question["texts"] for question in asked] == [["abcd"]]


@pytest.fixture
def held(window: Any) -> list[Any]:
    """The first question, which is not answered until somebody lets it go on."""
    window.open(text="e")
    questions: list[Any] = []
    window.page.route("**/api/translate", lambda route: questions.append(route) if not questions else route.continue_())
    return questions


def test_a_late_answer_to_an_earlier_text_is_not_shown(held: list[Any], window: Any, expect: Any):
    with window.page.expect_request("**/api/translate"):
        window.page.locator("#text").fill("a")
    with window.page.expect_event("requestfailed") as given_up:
        window.type("abc")
    assert given_up.value.post_data_json["texts"] == ["a"]
    expect(window.panel().locator(".translation")).to_have_text("abc")
    held[0].fulfill(json={"translations": [window.answer("a")]})
    window.page.evaluate(NEXT_PAINT)
    assert window.panel().locator(".translation").inner_text() == "abc"


def test_an_answer_is_not_the_last_word_while_somebody_types_on(held: list[Any], window: Any, expect: Any):
    window.page.clock.install(time="2030-01-01")
    window.page.clock.pause_at("2030-01-02")  # nothing happens after a while unless it is told
    with window.page.expect_request("**/api/translate"):
        window.page.locator("#text").fill("ab")
        window.page.clock.run_for(1000)
    window.page.locator("#text").fill("abc")
    held[0].continue_()
    expect(window.panel().locator(".translation")).to_have_text("ab")
    expect(window.panel()).to_have_attribute("aria-busy", "true")
    window.page.clock.run_for(1000)
    expect(window.panel().locator(".translation")).to_have_text("abc")
    expect(window.panel()).to_have_attribute("aria-busy", "false")


def test_examples_are_the_servers_and_can_be_tried(window: Any, expect: Any):
    window.open()
    examples = window.page.request.get(f"{window.address}api/runs").json()["runs"][0]["examples"]
    expect(window.page.locator("#text")).to_have_value(examples[0])
    expect(window.page.locator("#examples button")).to_have_text(examples)
    window.page.locator("#examples button").last.click()
    window.settle()
    expect(window.page.locator("#text")).to_have_value(examples[-1])
    expect(window.panel().locator(".translation")).to_have_text(window.answer(examples[-1])["text"])


# --- words and their alternatives ------------------------------------------------------------------------


def percent(probability: float) -> str:
    if 0 < probability < 0.001:
        return "< 0.1%"
    return f"{100 * probability:.1f}%" if probability < 0.01 else f"{100 * probability:.0f}%"


def test_a_word_tells_its_probability_and_what_might_stand_in_its_place(window: Any, expect: Any):
    window.open(run="heads", text="abd")
    best = window.answer("abd", "heads")["n_best"][0]
    words = window.panel().get_by_role("list", name="output tokens").get_by_role("button")
    for place, label in enumerate(best["labels"]):
        expect(words.nth(place)).to_have_accessible_name(
            f"{label} {percent(math.exp(best['log_probabilities'][place]))}"
        )
    words.nth(1).click()
    options = window.panel().get_by_role("listbox", name=f"alternatives to {best['labels'][1]}").get_by_role("option")
    expected = [f"{each['label']}{percent(each['probability'])}" for each in best["alternatives"][1]]
    assert len(expected) > 4
    expect(options).to_have_text(expected)
    chosen = options.evaluate_all("(all) => all.map((option) => option.ariaSelected)")
    assert chosen == ["true" if each["token"] == best["tokens"][1] else "false" for each in best["alternatives"][1]]


def test_a_forced_word_changes_the_rest_until_the_model_may_choose_again(window: Any, expect: Any):
    window.open(run="heads", text="abcde")
    usual = window.answer("abcde", "heads")["n_best"][0]
    prefix = [usual["tokens"][0], "d"]
    best = window.answer("abcde", "heads", prefix=prefix)["n_best"][0]
    assert best["tokens"][2:] != usual["tokens"][2:]
    window.pick(1, "d")
    words = window.panel().locator(".tokens button")
    expect(window.panel().locator(".translation")).to_have_text(best["text"])
    expect(window.panel().locator(".tokens .label")).to_have_text(best["labels"])
    forced = words.evaluate_all("(all) => all.map((word) => word.ariaLabel.endsWith(', forced'))")
    assert forced == [place < 2 for place in range(len(best["labels"]))]
    expect(window.panel().locator(".tokens .forced")).to_have_count(2)
    expect(words.nth(1)).to_be_focused()
    assert [value for name, value in window.told() if name == "prefix"] == prefix

    window.panel().get_by_role("button", name="Let the model choose again").click()
    expect(window.panel().locator(".translation")).to_have_text(usual["text"])
    expect(window.panel().locator(".tokens .forced")).to_have_count(0)
    assert "prefix" not in dict(window.told())


def test_an_end_can_be_forced(window: Any, expect: Any):
    window.open(text="abcde")
    window.pick(2, "<end>")
    expect(window.panel().locator(".translation")).to_have_text("ab")
    expect(window.panel().locator(".tokens .forced .label")).to_have_text(["a", "b", "<end>"])


def test_what_was_forced_is_not_forced_on_another_text(window: Any, expect: Any):
    window.open(text="abcde")
    window.pick(0, "c")
    window.type("abc")
    expect(window.panel().locator(".translation")).to_have_text("abc")
    expect(window.panel().locator(".forced")).to_have_count(0)


def test_what_was_forced_stays_when_one_compares_and_when_the_beam_is_widened(window: Any, expect: Any):
    window.open(run="heads", text="abcde")
    window.pick(0, "c")
    window.page.get_by_label("Compare with").select_option("copies")
    window.settle()
    expect(window.panel(1).locator(".translation")).to_have_text("abcde")
    expect(window.panel(0).locator(".tokens .forced .label")).to_have_text(["c"])
    window.page.get_by_label("Beam width").fill("3")
    window.settle()
    best = window.answer("abcde", "heads", beam=3, prefix=["c"])["n_best"][0]
    expect(window.panel(0).locator(".translation")).to_have_text(best["text"])
    expect(window.panel(0).locator(".tokens .forced .label")).to_have_text(["c"])


def test_to_let_the_model_choose_again_keeps_the_keyboard_and_looks_at_the_best(window: Any, expect: Any):
    window.open(run="heads", text="abd", beam=3, rank=2, prefix="c")
    window.panel().get_by_role("button", name="Let the model choose again").click()
    expect(window.panel().locator(".tokens button").first).to_be_focused()
    assert not {"rank", "prefix"} & set(dict(window.told()))


def test_a_beam_that_is_too_wide_is_told_and_not_made_narrower(window: Any, expect: Any):
    window.provoked.append("422")
    window.open(text="abc", beam=51)
    expect(window.panel().get_by_role("alert")).to_contain_text("beam: 51 is more than the 50 that are allowed here")
    assert dict(window.told())["beam"] == "51"


def test_an_address_that_asks_for_what_is_not_there_is_put_right(window: Any):
    window.open(text="abc", beam=2, rank=99)
    assert int(dict(window.told()).get("rank", 1)) <= 2


def test_a_forced_word_that_cannot_be_is_let_go(window: Any, expect: Any):
    window.provoked.append("422")
    window.open(text="abc", prefix="x")
    expect(window.panel().get_by_role("alert")).to_contain_text("'x'")
    window.panel().get_by_role("button", name="Let the model choose again").click()
    expect(window.panel().locator(".translation")).to_have_text("abc")
    expect(window.panel().get_by_role("alert")).to_be_hidden()


def test_another_of_the_best_translations_can_be_looked_at(window: Any, expect: Any):
    window.open(run="heads", text="abd", beam=3, penalty=1.5)
    third = window.answer("abd", "heads", beam=3, length_penalty=1.5)["n_best"][2]
    ranks = window.panel().get_by_label("which of the best translations")
    expect(ranks.locator("option")).to_have_count(3)
    expect(window.panel().locator(".facts")).to_contain_text("ranked by score / ((5 + length) / 6)^1.5")
    ranks.select_option("2")
    expect(window.panel().locator(".tokens .label")).to_have_text(third["labels"])
    expect(window.panel().locator(".translation")).to_have_text(third["text"])
    expect(ranks).to_be_focused()
    assert ("rank", "3") in window.told()


# --- two runs --------------------------------------------------------------------------------------------


def test_two_runs_read_the_same_text_side_by_side(window: Any, expect: Any):
    window.open(text="abd")
    window.page.get_by_label("Compare with").select_option("heads")
    window.settle()
    for text in ("abd", "edc"):
        window.type(text)
        for number, run in enumerate(("copies", "heads")):
            panel = window.panel(number)
            expect(panel.get_by_role("heading")).to_have_text(run)
            expect(panel.locator(".translation")).to_have_text(window.answer(text, run)["text"])
            assert window.names(window.labels(number)[1]) == [*text, "<end>"]
    boxes = [window.panel(number).bounding_box() for number in (0, 1)]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    assert boxes[0]["y"] == boxes[1]["y"]


def test_a_source_token_under_the_pointer_lights_up_in_the_other_run_as_well(window: Any, expect: Any):
    window.open(text="abd", other="heads")
    window.point_at(0, 2)
    _, columns = window.labels(1)
    expect(columns.nth(2)).to_have_class("token lit")
    expect(window.panel(1).locator(".lit")).to_have_count(1)


def test_a_view_is_opened_in_both_runs(window: Any, expect: Any):
    window.open(text="abd", other="heads")
    window.panel(1).get_by_role("tab", name="Beam").click()
    for number in (0, 1):
        expect(window.panel(number).locator(".tree")).to_be_visible()


def test_a_run_without_attention_says_so(window: Any, expect: Any):
    window.open(text="abd", other="blind")
    expect(window.panel(1)).to_contain_text("This model has no attention")
    expect(window.panel(1).locator(".map, .heads")).to_have_count(0)
    expect(window.panel(1).get_by_role("button", name="CSV")).to_have_count(0)
    expect(window.panel(1).locator(".tokens button")).not_to_have_count(0)
    expect(window.panel(0).locator(".map")).to_be_visible()


# --- what can go wrong -----------------------------------------------------------------------------------


def test_what_one_run_cannot_read_another_may_still_answer(window: Any, expect: Any, babble_name: str):
    window.provoked.append("422")
    window.open(text="abc", other=babble_name)
    held: list[Any] = []

    def hold_the_first_run(route: Any) -> None:
        held.append(route) if route.request.post_data_json["run"] == "copies" else route.continue_()

    window.page.route("**/api/translate", hold_the_first_run)
    window.page.locator("#text").fill("attention")
    expect(window.panel(1)).to_have_attribute("aria-busy", "false")
    held[0].continue_()
    window.settle()
    window.page.unroute("**/api/translate")
    expect(window.panel(0).get_by_role("alert")).to_contain_text("this task was not trained on the character 't'")
    expect(window.panel(0).locator(".translation")).to_be_hidden()
    expect(window.panel(1).locator(".translation")).to_have_text(window.answer("attention", babble_name)["text"])
    expect(window.panel(1).get_by_role("alert")).to_be_hidden()
    window.type("abc")
    expect(window.panel(0).get_by_role("alert")).to_be_hidden()
    expect(window.panel(0).locator(".translation")).to_have_text("abc")


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(window: Any, expect: Any, status: int):
    window.provoked.append(str(status))
    window.open(text="a")
    busy = {"status": status, "json": {"detail": "too much to do"}, "headers": {"Retry-After": "1"}}
    window.page.route("**/api/translate", lambda route: route.fulfill(**busy), times=2)
    window.page.locator("#text").fill("abc")
    expect(window.panel().get_by_role("alert")).to_have_text("too much to do")
    expect(window.panel().locator(".translation")).to_have_text("abc")
    expect(window.panel().get_by_role("alert")).to_be_hidden()


def test_a_server_that_is_gone_is_told(window: Any, expect: Any):
    window.provoked.append("ERR_FAILED")
    window.open(text="a")
    window.page.route("**/api/translate", lambda route: route.abort())
    window.type("abc")
    expect(window.panel().get_by_role("alert")).to_have_text("The server cannot be reached. Is it still running?")


def test_a_run_that_is_not_there_is_told(window: Any, expect: Any):
    window.open(text="abc", run="moved away")
    expect(window.page.locator("#problem")).to_have_text("This server has no run called moved away.")
    expect(window.panel().get_by_role("heading")).to_have_text("copies")
