"""Links, downloads and saved pages, access tokens, and the API documentation."""

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


def visible_state(window: Any) -> tuple[Any, Any, str]:
    """The values of all fields, and the HTML of the panels without ids and without transforms of zero."""
    window.page.mouse.move(2, 2)
    fields = window.page.locator("form :is(select, input, textarea)").evaluate_all(
        "(all) => all.map((one) => one.value)"
    )
    choices = window.page.locator("#panels :is(select, input)").evaluate_all(
        "(all) => all.map((one) => [one.value, one.checked])"
    )
    ignored = r' (id|for|name|aria-\w+)="\w+-\d+\S*"| transform="translate\(0 0\)"'
    return fields, choices, re.sub(ignored, "", window.page.locator("#panels").inner_html())


# --- links -----------------------------------------------------------------------------------------------


def test_a_link_reproduces_the_map(new_window: Callable[..., Any]):
    window, other_window = new_window(permissions=CLIPBOARD), new_window()
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
    window.panel(1).get_by_label("n-best list").select_option("1")
    link = copied_link(window)
    assert {("text", "abde"), ("layer", "2"), ("prefix", "d"), ("prefix2", "e"), ("rank2", "2")} <= set(window.fields())
    other_window.page.goto(link)
    other_window.wait_until_idle()
    assert visible_state(other_window) == visible_state(window)


def test_a_link_reproduces_the_step_of_a_beam(new_window: Callable[..., Any]):
    window, other_window = new_window(permissions=CLIPBOARD), new_window()
    window.open(text="abde", beam=3, other="heads")
    window.panel().get_by_role("tab", name="Beam").click()
    window.wait_until_idle()
    window.panel(0).get_by_role("button", name="first step").click()
    window.panel(1).get_by_role("button", name="previous step").click()
    other_window.page.goto(copied_link(window))
    other_window.wait_until_idle()
    other_window.expect(other_window.panel(0).locator(".counter")).to_contain_text("step 0 of")
    assert visible_state(other_window) == visible_state(window)


def test_a_link_can_be_opened_in_an_open_page(window: Any, expect: Any):
    window.open(text="abc")
    window.page.goto(f"{window.url}#text=edc&run=heads&view=lines")
    expect(window.panel().get_by_role("heading")).to_have_text("heads")
    expect(window.panel().locator(".lines")).to_be_visible()
    expect(window.page.locator("#text")).to_have_value("edc")


def test_without_a_clipboard_the_link_is_shown(window: Any, expect: Any):
    window.page.add_init_script("delete Navigator.prototype.clipboard")
    window.open(text="abc")
    window.page.get_by_role("button", name="Copy link").click()
    expect(window.page.get_by_label("link to this view")).to_have_value(window.page.url)
    assert window.page.evaluate("getSelection().toString()") == window.page.url


# --- downloads -------------------------------------------------------------------------------------------


def texts_in(path: Path) -> list[str]:
    """The texts of an SVG file, which must be well-formed and need no style sheet."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [node for node in root.iter() if {"class", "style"} & set(node.attrib)]
    return [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("view", ["Map", "Lines", "Beam"])
def test_an_svg_has_all_labels(window: Any, tmp_path: Path, scripts_name: str, view: str):
    text = "שלום attention"
    window.open(run=scripts_name, text=text)
    window.panel().get_by_role("tab", name=view).click()
    window.wait_until_idle()
    found = texts_in(window.download(window.panel().get_by_role("button", name="SVG"), tmp_path))
    translation = window.translate(text, scripts_name)
    maps = [*translation["n_best"][0]["labels"], *translation["source_labels"]]
    shown = [node["label"] for node in translation["tree"]] if view == "Beam" else maps
    assert {label[:5] for label in shown} <= {label[:5] for label in found}  # long ones are truncated
    assert len(found) > len(shown)


def test_a_png_has_double_resolution_and_the_colors_of_the_weights(window: Any, tmp_path: Path):
    window.open(text="abc")
    window.point_at(0, 0)  # highlights are not part of the image
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


def test_a_csv_file_has_the_weights_of_the_api(window: Any, tmp_path: Path):
    window.open(run="heads", text="abde", layer=2, head=1)
    translation = window.translate("abde", "heads")
    path = window.download(window.panel().get_by_role("button", name="CSV"), tmp_path)
    head, *rows = csv.reader(path.read_text(encoding="utf-8-sig").splitlines())
    best = translation["n_best"][0]
    assert head == ["", *translation["source_tokens"]]
    assert [row[0] for row in rows] == best["tokens"]
    assert [[float(number) for number in row[1:]] for row in rows] == best["attention"][1][0]


def test_the_table_on_the_page_has_the_weights_of_the_api(window: Any, expect: Any):
    window.open(text="abc")
    window.panel().get_by_text("Weights as a table").click()
    weights = window.translate("abc")["n_best"][0]["attention"]
    cells = [float(text.removeprefix("< ")) for text in window.panel().locator("tbody td").all_inner_texts()]
    assert cells == pytest.approx([weight for row in weights for weight in row], abs=0.01)
    expect(window.panel().locator("tbody th")).to_have_text([*"abc", "<end>"])


def test_csv_cells_are_quoted_and_never_formulas(window: Any, tmp_path: Path, scripts_name: str):
    window.open(run=scripts_name, text='=1+1 "a",b')
    path = window.download(window.panel().get_by_role("button", name="CSV"), tmp_path)
    head, *_ = csv.reader(path.read_text(encoding="utf-8-sig").splitlines())
    assert head == ["", "'=1+1", '"a",b', "<end>"]


@pytest.mark.parametrize("view", ["map", "beam"])
def test_a_json_file_is_the_translation_of_the_api(window: Any, tmp_path: Path, view: str):
    window.open(run="heads", text="abde", beam=3, view=view)
    path = window.download(window.panel().get_by_role("button", name="JSON"), tmp_path)
    assert json.loads(path.read_text("utf-8")) == window.translate("abde", "heads", beam=3, tree=view == "beam")
    assert path.name == f"heads-{view}-abde.json"


# --- saved pages -----------------------------------------------------------------------------------------


@pytest.fixture
def saved(new_window: Callable[..., Any], tmp_path: Path) -> tuple[Any, Path]:
    """A window with two runs and a forced token, and the page saved from it."""
    window = new_window()
    window.open(run="heads", text="abde", other="copies", layer=1, head=2, prefix=["d"], view="map")
    path = window.download(window.page.get_by_role("button", name="Save as HTML"), tmp_path)
    window.expect(window.page.get_by_role("status")).to_have_text("Page saved.")
    return window, path


def test_a_saved_page_shows_the_same_offline(saved: Any, new_window: Callable[..., Any], expect: Any):
    window, path = saved
    offline = new_window(offline=True)
    requested: list[str] = []
    offline.page.on("request", lambda request: requested.append(request.url))
    offline.page.goto(path.as_uri())
    expect(offline.page.get_by_role("heading", level=1)).to_have_text("abde")
    for number in (0, 1):
        assert [offline.names(side) for side in offline.labels(number)] == [
            window.names(side) for side in window.labels(number)
        ]
        for each in (window, offline):
            each.point_at(1, 2, number)
            expect(each.panel(number).locator(".map .token.highlighted")).to_have_count(2)
        expect(offline.panel(number).locator(".readout")).to_have_text(
            window.panel(number).locator(".readout").inner_text()
        )
        expect(offline.panel(number).locator(".translation")).to_have_text(
            window.panel(number).locator(".translation").inner_text()
        )
    expect(offline.panel(0).get_by_role("radio", name="layer 1 · head 2")).to_be_checked()
    expect(offline.panel(0).locator(".tokens .forced")).to_have_count(1)
    offline.panel(0).get_by_role("tab", name="Beam").click()
    expect(offline.panel(1).locator(".node[data-number]")).to_have_count(len(window.translate("abde")["tree"]))
    assert requested == [path.as_uri()]


def test_a_saved_page_has_self_attention(saved: Any, new_window: Callable[..., Any], expect: Any):
    _, path = saved
    offline = new_window(offline=True)
    offline.page.goto(path.as_uri())
    outputs = offline.names(offline.labels(0)[0])
    offline.panel(0).get_by_role("radio", name="within the decoder").check()
    expect(offline.panel(0).locator(".map .pinned .caption").first).to_have_text("input →")
    assert [offline.names(side) for side in offline.labels(0)] == [outputs, ["<begin>", *outputs[:-1]]]
    expect(offline.panel(1).get_by_role("radio", name="within the decoder")).to_have_count(0)


def test_a_saved_page_lists_alternatives_that_cannot_be_chosen(saved: Any, new_window: Callable[..., Any], expect: Any):
    _, path = saved
    offline = new_window(offline=True)
    offline.page.goto(path.as_uri())
    before = offline.panel().locator(".translation").inner_text()
    offline.panel().locator(".tokens button").nth(1).click()
    options = offline.panel().get_by_role("option")
    expect(options).to_have_count(6)
    for option in options.all():
        expect(option).to_be_disabled()
    options.nth(2).click(force=True)
    expect(options).to_have_count(0)
    expect(offline.panel().locator(".translation")).to_have_text(before)
    expect(offline.panel().get_by_role("button", name="Remove forced tokens")).to_have_count(0)


def test_a_saved_page_can_be_saved_again(saved: Any, new_window: Callable[..., Any], tmp_path: Path, expect: Any):
    _, path = saved
    offline = new_window(offline=True)
    offline.page.goto(path.as_uri())
    (tmp_path / "again").mkdir()
    again = offline.download(offline.page.get_by_role("button", name="Save this page"), tmp_path / "again")
    assert again.name == path.name
    before = offline.page.locator("#panels").inner_html()
    offline.page.goto(again.as_uri())
    expect(offline.panel(1).locator(".map")).to_be_visible()
    assert offline.page.locator("#panels").inner_html() == before


def test_without_a_translation_no_page_is_saved(window: Any, expect: Any):
    window.expected_errors.append("422")
    window.open(text="xyz")
    window.page.get_by_role("button", name="Save as HTML").click()
    expect(window.page.get_by_role("status")).to_have_text("There is no translation to save.")


def test_a_notebook_shows_an_interactive_map(window: Any, trained: Path, expect: Any):
    (translation,) = regard.load(trained).translate(["abc"])
    window.page.set_content(f"<!DOCTYPE html>{translation._repr_html_()}")
    frame = window.page.frame_locator("iframe")
    expect(frame.locator(".map .grid")).to_be_visible()
    expect(frame.locator(".translation")).to_have_text("abc")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        frame.get_by_role("application").press(key)
    expect(frame.locator(".readout")).to_have_text(f"«b» attends to «b»: {translation.attention[1, 1]:.2f}")


# --- tokens ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded_url(start_server: Any, runs: Any) -> Iterator[str]:
    with start_server(build_app(runs, Limits(), token=TOKEN)) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def guarded(guarded_url: str, new_window: Callable[..., Any]) -> Any:
    """A window on a server that requires a token."""
    window = new_window(guarded_url, permissions=CLIPBOARD)
    window.expected_errors.append("401")
    return window


def test_the_token_dialog_repeats_until_the_token_is_right(guarded: Any, expect: Any):
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


def test_the_token_dialog_cannot_be_dismissed(guarded: Any, expect: Any):
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


def test_a_token_in_the_url_is_used_and_removed(guarded: Any, expect: Any):
    guarded.page.goto(f"{guarded.url}#token={TOKEN}&text=abc")
    guarded.wait_until_idle()
    expect(guarded.page.get_by_role("dialog")).to_be_hidden()
    expect(guarded.panel().locator(".translation")).to_have_text("abc")
    assert guarded.fields() == [("text", "abc"), ("run", "copies")]
    assert TOKEN not in copied_link(guarded)


def test_a_wrong_token_in_the_url_is_removed(guarded: Any, expect: Any):
    guarded.page.goto(f"{guarded.url}#token=wrong&text=abc")
    expect(guarded.page.locator("#token-error")).to_contain_text("a token is required")
    assert guarded.fields() == [("text", "abc")]


# --- the API documentation -------------------------------------------------------------------------------


def test_the_documentation_lists_every_operation(guarded: Any, expect: Any):
    guarded.page.goto(f"{guarded.url}docs")
    api = guarded.page.request.get(f"{guarded.url}openapi.json").json()
    operations = [f"{method.upper()} {path}" for path, methods in api["paths"].items() for method in methods]
    assert len(operations) == 5
    expect(guarded.page.get_by_role("heading", level=2)).to_have_text(operations)
    fields = guarded.page.get_by_role("table", name="TranslateRequest").locator("tbody th")
    expect(fields).to_have_text(list(api["components"]["schemas"]["TranslateRequest"]["properties"]))
    guarded.page.get_by_role("link", name="Home").click()
    expect(guarded.page.get_by_role("dialog")).to_be_visible()
