"""What can be taken from the page, in a real browser: links, pictures, numbers, saved pages; and who may see it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib import image

import regard
from regard.serving.app import build_app
from regard.serving.limits import Limits

pytestmark = pytest.mark.slow

TOKEN = "s3cret"
CLIPBOARD = ["clipboard-read", "clipboard-write"]


def copied_link(window: Any) -> str:
    window.page.get_by_role("button", name="Copy link").click()
    window.expect(window.page.get_by_role("status")).to_have_text("Link copied.")
    return str(window.page.evaluate("navigator.clipboard.readText()"))


def looks(window: Any) -> tuple[Any, Any, str]:
    """What is chosen, and all that is shown, but for ids, and for what tells that something was scrolled back."""
    window.page.mouse.move(2, 2)
    fields = window.page.locator("form :is(select, input, textarea)").evaluate_all(
        "(all) => all.map((one) => one.value)"
    )
    chosen = window.page.locator("#panels :is(select, input)").evaluate_all(
        "(all) => all.map((one) => [one.value, one.checked])"
    )
    ignored = r' (id|for|name|aria-\w+)="\w+-\d+\S*"| transform="translate\(0 0\)"'
    return fields, chosen, re.sub(ignored, "", window.page.locator("#panels").inner_html())


# --- links -----------------------------------------------------------------------------------------------


def test_a_link_shows_the_same_map_elsewhere(new_window: Callable[..., Any]):
    window, elsewhere = new_window(permissions=CLIPBOARD), new_window()
    window.open(text="abc")
    window.type("abde")
    window.page.get_by_label("Run", exact=True).select_option("heads")
    window.page.get_by_label("Compare with").select_option("copies")
    window.page.get_by_label("Beam width").fill("4")
    window.page.get_by_label("Length penalty").fill("0.5")
    window.wait_until_idle()
    window.choose_alternative(1, "d")
    window.choose_alternative(0, "e", panel=1)
    window.panel(0).get_by_role("radio", name="layer 2 · head 1").check(force=True)
    window.panel(1).get_by_label("which of the best").select_option("1")
    link = copied_link(window)
    assert {("text", "abde"), ("layer", "2"), ("prefix", "d"), ("prefix2", "e"), ("rank2", "2")} <= set(window.fields())
    elsewhere.page.goto(link)
    elsewhere.wait_until_idle()
    assert looks(elsewhere) == looks(window)


def test_a_link_shows_the_same_step_of_a_beam_elsewhere(new_window: Callable[..., Any]):
    window, elsewhere = new_window(permissions=CLIPBOARD), new_window()
    window.open(text="abde", beam=3, other="heads")
    window.panel().get_by_role("tab", name="Beam").click()
    window.wait_until_idle()
    window.panel(0).get_by_role("button", name="first step").click()
    window.panel(1).get_by_role("button", name="one step back").click()
    elsewhere.page.goto(copied_link(window))
    elsewhere.wait_until_idle()
    elsewhere.expect(elsewhere.panel(0).locator(".counter")).to_contain_text("step 0 of")
    assert looks(elsewhere) == looks(window)


def test_a_link_can_be_opened_where_the_page_is_open_already(window: Any, expect: Any):
    window.open(text="abc")
    window.page.goto(f"{window.url}#text=edc&run=heads&view=lines")
    expect(window.panel().get_by_role("heading")).to_have_text("heads")
    expect(window.panel().locator(".lines")).to_be_visible()
    expect(window.page.locator("#text")).to_have_value("edc")


def test_where_nothing_may_be_copied_the_link_is_shown(window: Any, expect: Any):
    window.page.add_init_script("delete Navigator.prototype.clipboard")
    window.open(text="abc")
    window.page.get_by_role("button", name="Copy link").click()
    expect(window.page.get_by_label("link to this view")).to_have_value(window.page.url)
    assert window.page.evaluate("getSelection().toString()") == window.page.url


# --- pictures and numbers --------------------------------------------------------------------------------


def texts_in(path: Path) -> list[str]:
    """Those of an SVG file, which must be well-formed and need no style sheet."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [node for node in root.iter() if {"class", "style"} & set(node.attrib)]
    return [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("view", ["Map", "Lines", "Beam"])
def test_a_picture_has_all_its_labels(window: Any, tmp_path: Path, scripts_name: str, view: str):
    text = "שלום attention"
    window.open(run=scripts_name, text=text)
    window.panel().get_by_role("tab", name=view).click()
    window.wait_until_idle()
    found = texts_in(window.download(window.panel().get_by_role("button", name="SVG"), tmp_path))
    answer = window.translate(text, scripts_name)
    maps = [*answer["n_best"][0]["labels"], *answer["source_labels"]]
    shown = [node["label"] for node in answer["tree"]] if view == "Beam" else maps
    assert {label[:5] for label in shown} <= {label[:5] for label in found}  # long ones are cut
    assert len(found) > len(shown)


def test_an_image_is_sharp_and_has_the_colours_of_the_weights(window: Any, tmp_path: Path):
    window.open(text="abc")
    window.point_at(0, 0)  # what lights up does not belong into the image
    x, y, width, height = window.grid()
    path = window.download(window.panel().get_by_role("button", name="PNG"), tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = image.imread(path)
    drawn = window.panel().locator(".map").bounding_box()
    assert pixels.shape[:2] == (2 * drawn["height"], 2 * drawn["width"])

    def lightness(output: float, source: float) -> float:
        return float(pixels[int(2 * (y + output * height / 4)), int(2 * (x + source * width / 4)), :3].mean())

    weights = window.translate("abc")["n_best"][0]["attention"]
    cells = [
        (weights[output][source], lightness(output + 0.5, source + 0.5)) for output in range(4) for source in range(4)
    ]
    assert max(light for weight, light in cells if weight > 0.9) < 0.4
    assert min(light for weight, light in cells if weight < 0.1) > 0.8


def test_numbers_are_those_of_the_api(window: Any, tmp_path: Path):
    window.open(run="heads", text="abde", layer=2, head=1)
    answer = window.translate("abde", "heads")
    path = window.download(window.panel().get_by_role("button", name="CSV"), tmp_path)
    head, *rows = csv.reader(path.read_text(encoding="utf-8-sig").splitlines())
    best = answer["n_best"][0]
    assert head == ["", *answer["source_tokens"]]
    assert [row[0] for row in rows] == best["tokens"]
    assert [[float(number) for number in row[1:]] for row in rows] == best["attention"][1][0]


def test_the_table_on_the_page_has_the_same_numbers(window: Any, expect: Any):
    window.open(text="abc")
    window.panel().get_by_text("Weights as a table").click()
    weights = window.translate("abc")["n_best"][0]["attention"]
    cells = [float(text.removeprefix("< ")) for text in window.panel().locator("tbody td").all_inner_texts()]
    assert cells == pytest.approx([weight for row in weights for weight in row], abs=0.01)
    expect(window.panel().locator("tbody th")).to_have_text([*"abc", "<end>"])


def test_no_token_becomes_a_formula_or_another_column(window: Any, tmp_path: Path, scripts_name: str):
    window.open(run=scripts_name, text='=1+1 "a",b')
    path = window.download(window.panel().get_by_role("button", name="CSV"), tmp_path)
    head, *_ = csv.reader(path.read_text(encoding="utf-8-sig").splitlines())
    assert head == ["", "'=1+1", '"a",b', "<end>"]


@pytest.mark.parametrize("view", ["map", "beam"])
def test_the_whole_answer_can_be_taken(window: Any, tmp_path: Path, view: str):
    window.open(run="heads", text="abde", beam=3, view=view)
    path = window.download(window.panel().get_by_role("button", name="JSON"), tmp_path)
    assert json.loads(path.read_text("utf-8")) == window.translate("abde", "heads", beam=3, tree=view == "beam")
    assert path.name == f"heads-{view}-abde.json"


# --- saved pages -----------------------------------------------------------------------------------------


@pytest.fixture
def saved(new_window: Callable[..., Any], tmp_path: Path) -> tuple[Any, Path]:
    """A window with two runs and a forced word, and the page that was saved from it."""
    window = new_window()
    window.open(run="heads", text="abde", other="copies", layer=1, head=2, prefix=["d"], view="map")
    path = window.download(window.page.get_by_role("button", name="Save as HTML"), tmp_path)
    window.expect(window.page.get_by_role("status")).to_have_text("Page saved.")
    return window, path


def test_a_saved_page_shows_the_same_without_a_server(saved: Any, new_window: Callable[..., Any], expect: Any):
    window, path = saved
    alone = new_window(offline=True)
    requested: list[str] = []
    alone.page.on("request", lambda request: requested.append(request.url))
    alone.page.goto(path.as_uri())
    expect(alone.page.get_by_role("heading", level=1)).to_have_text("abde")
    for number in (0, 1):
        assert [alone.names(side) for side in alone.labels(number)] == [
            window.names(side) for side in window.labels(number)
        ]
        for each in (window, alone):
            each.point_at(1, 2, number)
            expect(each.panel(number).locator(".map .token.lit")).to_have_count(2)
        expect(alone.panel(number).locator(".readout")).to_have_text(
            window.panel(number).locator(".readout").inner_text()
        )
        expect(alone.panel(number).locator(".translation")).to_have_text(
            window.panel(number).locator(".translation").inner_text()
        )
    expect(alone.panel(0).get_by_role("radio", name="layer 1 · head 2")).to_be_checked()
    expect(alone.panel(0).locator(".tokens .forced")).to_have_count(1)
    alone.panel(0).get_by_role("tab", name="Beam").click()
    expect(alone.panel(1).locator(".node[data-number]")).to_have_count(len(window.translate("abde")["tree"]))
    assert requested == [path.as_uri()]


def test_in_a_saved_page_nothing_else_can_be_chosen(saved: Any, new_window: Callable[..., Any], expect: Any):
    _, path = saved
    alone = new_window(offline=True)
    alone.page.goto(path.as_uri())
    before = alone.panel().locator(".translation").inner_text()
    alone.panel().locator(".tokens button").nth(1).click()
    options = alone.panel().get_by_role("option")
    expect(options).to_have_count(6)
    for option in options.all():
        expect(option).to_be_disabled()
    options.nth(2).click(force=True)
    expect(options).to_have_count(0)
    expect(alone.panel().locator(".translation")).to_have_text(before)
    expect(alone.panel().get_by_role("button", name="choose again")).to_have_count(0)


def test_a_saved_page_can_be_saved_again(saved: Any, new_window: Callable[..., Any], tmp_path: Path, expect: Any):
    _, path = saved
    alone = new_window(offline=True)
    alone.page.goto(path.as_uri())
    (tmp_path / "again").mkdir()
    again = alone.download(alone.page.get_by_role("button", name="Save this page"), tmp_path / "again")
    assert again.name == path.name
    before = alone.page.locator("#panels").inner_html()
    alone.page.goto(again.as_uri())
    expect(alone.panel(1).locator(".map")).to_be_visible()
    assert alone.page.locator("#panels").inner_html() == before


def test_without_a_translation_no_page_is_saved(window: Any, expect: Any):
    window.expected_errors.append("422")
    window.open(text="xyz")
    window.page.get_by_role("button", name="Save as HTML").click()
    expect(window.page.get_by_role("status")).to_have_text("There is no translation to save.")


def test_a_notebook_shows_a_map_that_answers(window: Any, trained: Path, expect: Any):
    (translation,) = regard.load(trained).translate(["abc"])
    window.page.set_content(f"<!DOCTYPE html>{translation._repr_html_()}")
    frame = window.page.frame_locator("iframe")
    expect(frame.locator(".map .grid")).to_be_visible()
    expect(frame.locator(".translation")).to_have_text("abc")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        frame.get_by_role("application").press(key)
    expect(frame.locator(".readout")).to_have_text(f"«b» looked at «b»: {translation.attention[1, 1]:.2f}")


# --- tokens ----------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(serving: Any, served: Any, new_window: Callable[..., Any]) -> Iterator[Any]:
    """A window on a server that wants a token."""
    with serving(build_app(served, Limits(), token=TOKEN)) as port:
        window = new_window(f"http://127.0.0.1:{port}/", permissions=CLIPBOARD)
        window.expected_errors.append("401")
        yield window


def test_a_token_is_asked_for_until_it_is_right(guarded: Any, expect: Any):
    page = guarded.page
    page.goto(f"{guarded.url}#text=abc")
    dialog = page.get_by_role("dialog", name="This server requires a token")
    expect(dialog).to_be_visible()
    expect(page.locator("#token-error")).to_be_empty()
    dialog.get_by_label("Token").fill("wrong")
    dialog.get_by_role("button", name="Continue").click()
    expect(page.locator("#token-error")).to_contain_text("a token is required")
    dialog.get_by_label("Token").fill(TOKEN)
    dialog.get_by_label("Token").press("Enter")
    guarded.wait_until_idle()
    expect(dialog).to_be_hidden()
    expect(guarded.panel().locator(".translation")).to_have_text("abc")
    page.reload()
    guarded.wait_until_idle()
    expect(guarded.panel().locator(".translation")).to_have_text("abc")
    expect(dialog).to_be_hidden()


def test_the_dialog_cannot_be_waved_away(guarded: Any, expect: Any):
    guarded.page.goto(guarded.url)
    dialog = guarded.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(3):
        guarded.page.keyboard.press("Escape")
        guarded.page.evaluate("new Promise((done) => setTimeout(done))")
        expect(dialog).to_be_visible()
    dialog.get_by_label("Token").fill(TOKEN)
    dialog.get_by_label("Token").press("Enter")
    guarded.wait_until_idle()


def test_a_token_in_the_address_is_taken_and_not_passed_on(guarded: Any, expect: Any):
    guarded.page.goto(f"{guarded.url}#token={TOKEN}&text=abc")
    guarded.wait_until_idle()
    expect(guarded.page.get_by_role("dialog")).to_be_hidden()
    expect(guarded.panel().locator(".translation")).to_have_text("abc")
    assert guarded.fields() == [("text", "abc"), ("run", "copies")]
    assert TOKEN not in copied_link(guarded)


def test_a_wrong_token_in_the_address_is_taken_as_well(guarded: Any, expect: Any):
    guarded.page.goto(f"{guarded.url}#token=wrong&text=abc")
    expect(guarded.page.locator("#token-error")).to_contain_text("a token is required")
    assert guarded.fields() == [("text", "abc")]


# --- the description of the API --------------------------------------------------------------------------


def test_the_description_tells_of_every_operation(guarded: Any, expect: Any):
    guarded.page.goto(f"{guarded.url}docs")
    api = guarded.page.request.get(f"{guarded.url}openapi.json").json()
    operations = [f"{method.upper()} {path}" for path, methods in api["paths"].items() for method in methods]
    assert len(operations) == 5
    expect(guarded.page.get_by_role("heading", level=2)).to_have_text(operations)
    fields = guarded.page.get_by_role("table", name="TranslateRequest").locator("tbody th")
    expect(fields).to_have_text(list(api["components"]["schemas"]["TranslateRequest"]["properties"]))
    guarded.page.get_by_role("link", name="Page").click()
    expect(guarded.page.get_by_role("dialog")).to_be_visible()
