"""Keyboard, accessible names, small screens, dark mode, right-to-left scripts, and markup in texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


# --- keyboard --------------------------------------------------------------------------------------------


def tab_to(window: Any, target: Any) -> None:
    """Press Tab until `target` has the focus; it must get it within one pass over the page."""
    for _ in range(60):
        window.page.keyboard.press("Tab")
        if target.evaluate("(one) => one === document.activeElement"):
            return
    pytest.fail(f"{target} cannot be reached by the tab key")


def test_everything_can_be_reached_by_the_tab_key_in_the_order_of_the_page(window: Any):
    window.open(run="heads", text="abd", beam=2)
    window.page.keyboard.press("Tab")  # to the link in the head
    panel = window.panel()
    for target in (
        window.page.get_by_label("Text to translate"),
        window.page.locator("#examples button").first,
        window.page.get_by_label("Run", exact=True),
        window.page.get_by_label("Compare with"),
        window.page.get_by_label("Beam width"),
        window.page.get_by_label("Length penalty"),
        window.page.get_by_role("button", name="Save as HTML"),
        panel.get_by_label("n-best list"),
        panel.locator(".tokens button").first,
        panel.get_by_role("tab", name="Map"),
        panel.get_by_role("application"),
        panel.get_by_role("radio", name="mean of all"),
        panel.get_by_text("Weights as a table"),
        panel.get_by_role("button", name="JSON"),
    ):
        tab_to(window, target)


def test_the_map_can_be_explored_by_keyboard(window: Any, expect: Any):
    window.open(text="")
    tab_to(window, window.page.get_by_label("Text to translate"))
    window.page.keyboard.type("abcd")
    expect(window.panel().locator(".translation")).to_have_text("abcd")
    weights = window.translate("abcd")["n_best"][0]["attention"]
    stage, readout = window.panel().get_by_role("application"), window.panel().locator(".readout")
    tab_to(window, stage)
    names = [*"abcd", "<end>"]
    for key, output, source in (
        ("ArrowRight", 0, 0),
        ("ArrowDown", 1, 0),
        ("ArrowRight", 1, 1),
        ("ArrowDown", 2, 1),
        ("ArrowUp", 1, 1),
        ("ArrowLeft", 1, 0),
        ("End", 1, 4),
        ("PageDown", 4, 4),
        ("Home", 4, 0),
        ("PageUp", 0, 0),
    ):
        window.page.keyboard.press(key)
        expected = re.escape(f"«{names[output]}» attends to «{names[source]}»: ")
        expect(readout).to_have_text(re.compile(f"{expected}(< 0.01|{weights[output][source]:.2f})"))
    window.page.keyboard.press("Tab")
    expect(readout).to_be_empty()


def test_arrow_keys_switch_tabs(window: Any, expect: Any):
    window.open(text="abc")
    tab = {name: window.panel().get_by_role("tab", name=name) for name in ("Map", "Lines", "Beam")}
    tab["Map"].focus()
    for key, name, picture in (
        ("ArrowRight", "Lines", ".lines"),
        ("ArrowRight", "Beam", ".tree"),
        ("ArrowRight", "Map", ".map"),
        ("End", "Beam", ".tree"),
        ("ArrowLeft", "Lines", ".lines"),
        ("Home", "Map", ".map"),
    ):
        window.page.keyboard.press(key)
        expect(tab[name]).to_be_focused()
        expect(tab[name]).to_have_attribute("aria-selected", "true")
        expect(window.panel().locator(picture)).to_be_visible()
        expect(window.panel().get_by_role("tabpanel")).to_have_accessible_name(name)


@pytest.mark.parametrize("opening", ["Enter", "ArrowDown"])
def test_alternatives_can_be_opened_and_chosen_by_keyboard(window: Any, expect: Any, opening: str):
    window.open(text="abcd")
    words = window.panel().locator(".tokens button")
    options, active = window.panel().get_by_role("option"), window.panel().locator("[role=option].active")
    tokens = [each["token"] for each in window.translate("abcd")["n_best"][0]["alternatives"][1]]
    words.nth(1).focus()
    window.page.keyboard.press(opening)
    listbox = window.panel().get_by_role("listbox")
    expect(listbox).to_be_focused()
    expect(words.nth(1)).to_have_attribute("aria-expanded", "true")
    for key, index in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", len(tokens) - 1), ("Home", 0)):
        window.page.keyboard.press(key)
        expect(active.locator("bdi")).to_have_text(tokens[index])
        expect(listbox).to_have_attribute("aria-activedescendant", options.nth(index).get_attribute("id"))
    window.page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(words.nth(1)).to_be_focused()
    expect(words.nth(1)).to_have_attribute("aria-expanded", "false")

    for key in (opening, "ArrowDown", "Enter"):
        window.page.keyboard.press(key)
    expect(words.nth(1)).to_have_accessible_name(re.compile(f"^{tokens[1]} .*, forced$"))
    expect(words.nth(1)).to_be_focused()
    expect(options).to_have_count(0)


def test_arrow_keys_select_a_head(window: Any, expect: Any):
    window.open(run="heads", text="abd")
    window.panel().get_by_role("radio", name="mean of all").focus()
    for name in ("layer 1 · head 1", "layer 1 · head 2", "layer 2 · head 1"):
        window.page.keyboard.press("ArrowRight")
        expect(window.panel().get_by_role("radio", name=name)).to_be_checked()
        expect(window.panel().get_by_role("radio", name=name)).to_be_focused()


def test_arrow_keys_step_through_the_beam(window: Any, expect: Any):
    window.open(text="abc", beam=3, view="beam")
    tree = window.translate("abc", beam=3)["tree"]
    steps = max(node["length"] for node in tree)
    second = [node for node in tree if node["length"] == 2]
    words, counter = window.panel().locator(".readout:visible"), window.panel().locator(".counter")
    window.panel().get_by_role("application").focus()
    for key, step in (("ArrowLeft", steps - 1), ("Home", 0), ("ArrowRight", 1), ("End", steps), ("Home", 0)):
        window.page.keyboard.press(key)
        expect(counter).to_have_text(f"step {step} of {steps}")
    for _ in range(2):
        window.page.keyboard.press("ArrowRight")
    for key, index in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0)):
        window.page.keyboard.press(key)
        expect(words).to_contain_text(f"«{second[index]['label']}» · score ")
        expect(words).to_contain_text(f" · {second[index]['fate']}")


# --- names -----------------------------------------------------------------------------------------------

NAMELESS = """(all) => all.filter((one) => one.checkVisibility()).filter((one) => {
  const ids = (one.getAttribute("aria-labelledby") ?? "").split(" ");
  const others = [...(one.labels ?? []), ...ids.map((id) => document.getElementById(id))];
  return ![one.ariaLabel, ...[one, ...others].map((node) => node?.textContent)].some((name) => name?.trim());
}).map((one) => one.outerHTML)"""


@pytest.mark.parametrize("view", ["map", "lines", "beam"])
def test_every_control_has_an_accessible_name(window: Any, expect: Any, view: str):
    window.open(run="heads", text="abd", other="copies", beam=3, view=view, prefix="d")
    window.panel(1).locator(".tokens button").first.click()
    used = "button, select, input, textarea, a, section, [role], [tabindex], fieldset, dialog"
    assert window.page.locator(used).count() > 40
    unnamed = window.page.locator(f":is({used}):not([role=alert], [role=status])")
    assert unnamed.evaluate_all(NAMELESS) == []
    assert window.page.locator("svg:not([aria-hidden=true])").count() == 0, "pictures are described in text"
    ids = window.page.locator("[id]").evaluate_all("(all) => all.map((one) => one.id)")
    assert len(set(ids)) == len(ids)


def test_changes_are_announced_to_screen_readers(window: Any, expect: Any):
    window.open(text="abc")
    for selector in (".translation", ".readout", ".problem"):
        region = window.panel().locator(selector)
        assert region.get_attribute("aria-live") == "polite" or region.get_attribute("role") == "alert"
    expect(window.page.get_by_role("status")).to_be_attached()
    expect(window.panel()).to_have_accessible_name("copies")


# --- small screens, dark mode ----------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["map", "lines", "beam"])
def test_the_page_fits_the_width_of_a_phone(new_window: Callable[..., Any], expect: Any, scripts_name: str, view: str):
    phone = new_window(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    long = " ".join(["attention", "注意機構で翻訳する文章", "donaudampfschifffahrtsgesellschaft" * 3] * 4)
    for text, run, other in (
        ("abde", "heads", "copies"),
        ("abcde" * 9, "copies", "no-attention"),
        (long, scripts_name, ""),
    ):
        phone.open(run=run, other=other, text=text, beam=3, view=view)
        expect(phone.page.locator(".stage").first).to_be_visible()
        phone.panel().locator(".tokens button").last.click()
        expect(phone.page.get_by_role("listbox")).to_be_visible()
        assert phone.page.evaluate("document.scrollingElement.scrollWidth") <= 360
        box = phone.page.get_by_role("listbox").bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 360


def test_a_touch_shows_the_weight(new_window: Callable[..., Any], expect: Any):
    phone = new_window(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    phone.open(text="abc")
    x, y, width, height = phone.grid()
    phone.panel().locator(".map").tap(position={"x": x + width * 3 / 8, "y": y + height * 3 / 8})
    expect(phone.panel().locator(".readout")).to_contain_text("«b» attends to «b»: ")


TEXTS = "label, button, select, textarea, h1, h2, p, a, .percent, .facts, .counter, bdi, svg text, summary, legend"
LUMINANCES = """(all) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (color) => {
    if (!known.has(color)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = color;
      brush.fillRect(0, 0, 1, 1);
      known.set(color, [...brush.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(color);
  };
  const background = (node) => {
    const box = node.closest(".node")?.querySelector(node.matches(".rank") ? ".badge" : "rect");
    if (box && !node.matches(".caption")) return getComputedStyle(box).fill;
    const color = getComputedStyle(node).backgroundColor;
    return rgba(color)[3] || !node.parentElement ? color : background(node.parentElement);
  };
  const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = (color) => {
    const [red, green, blue] = rgba(color).map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  return all.filter((one) => one.checkVisibility() && one.textContent.trim()).map((one) => {
    const { color, fill } = getComputedStyle(one);
    return [one.textContent, luminance(one instanceof SVGElement ? fill : color), luminance(background(one))];
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_light_and_dark_mode(new_window: Callable[..., Any], expect: Any, scheme: str):
    window = new_window(color_scheme=scheme)
    window.expected_errors.append("422")
    for view in ("map", "lines", "beam"):
        window.open(run="heads", text="abde", other="copies", beam=2, view=view, prefix="d", prefix2="x")
        window.panel().locator(".tokens button").nth(1).click()
        measured = window.page.locator(TEXTS).evaluate_all(LUMINANCES)
        assert len(measured) > 50
        for text, foreground, background in measured:
            assert (max(foreground, background) + 0.05) / (min(foreground, background) + 0.05) >= 4.5, text
        assert (measured[0][2] < 0.1) == (scheme == "dark")


# --- scripts ---------------------------------------------------------------------------------------------


def middles(labels: Any) -> list[float]:
    boxes = [label.bounding_box() for label in labels.all()]
    return [box["x"] + box["width"] / 2 for box in boxes]


def test_a_right_to_left_source_begins_on_the_right(window: Any, expect: Any, scripts_name: str):
    window.open(run=scripts_name, text="שלום לכם שלום")
    rows, columns = window.labels()
    assert window.names(columns) == ["שלום", "לכם", "שלום", "<end>"]
    positions = middles(columns)
    assert all(one > other for one, other in pairwise(positions))
    assert min(middles(rows)) > max(positions), "row labels are on the right, where reading begins"

    window.panel().get_by_role("application").focus()
    for key, source in (("ArrowLeft", 0), ("ArrowLeft", 1), ("ArrowRight", 0), ("End", 3)):
        window.page.keyboard.press(key)
        expect(columns.nth(source)).to_have_class("token highlighted")
    grid = window.panel().locator(".map .grid").bounding_box()
    frame = window.panel().locator(".map .frame.cell").bounding_box()
    assert frame["x"] < grid["x"] + grid["width"] / 4

    window.type("attention attention")
    positions = middles(window.labels()[1])
    assert all(one < other for one, other in pairwise(positions))


@pytest.mark.parametrize(
    "text", ["注意機構で翻訳する文章 ある日の午後 注意機構で翻訳する文章", "שלום طاب يومكم", "aa attention b c d e f g"]
)
def test_labels_of_wide_scripts_do_not_overlap_the_map(window: Any, scripts_name: str, text: str):
    window.open(run=scripts_name, text=text)
    grid = window.panel().locator(".map .grid").bounding_box()
    picture = window.panel().locator(".map").bounding_box()
    rows, columns = window.labels()
    assert columns.count() == len(text.split()) + 1
    for label in columns.all():
        box = label.bounding_box()
        assert picture["y"] <= box["y"] <= box["y"] + box["height"] <= grid["y"] + 1
        assert picture["x"] - 1 <= box["x"] <= box["x"] + box["width"] <= picture["x"] + picture["width"] + 1
    for label in rows.all():
        box = label.bounding_box()
        assert box["x"] + box["width"] <= grid["x"] + 1 or box["x"] >= grid["x"] + grid["width"] - 1


# --- markup ----------------------------------------------------------------------------------------------


def check_shown_as_text(window: Any, locator: Any, markup: str) -> None:
    window.expect(locator.first).to_contain_text(markup)
    window.expect(window.page.locator("img")).to_have_count(0)


def test_markup_is_shown_as_text_and_never_run(
    window: Any, new_window: Callable[..., Any], markup: str, scripts_name: str, tmp_path: Path
):
    window.expected_errors.append("422")
    text = f"{markup} <img src=x onerror=alert(1)> <script>alert(1)</script>"
    window.open(text="abc")
    window.type(text)
    check_shown_as_text(window, window.panel().get_by_role("alert").filter(has_text="'<'"), "'<'")
    window.page.get_by_label("Run", exact=True).select_option(scripts_name)
    window.wait_until_idle()
    panel = window.panel()
    check_shown_as_text(window, panel.get_by_role("heading"), markup)
    check_shown_as_text(window, panel.locator(".translation"), markup)
    check_shown_as_text(window, panel.locator(".tokens .label"), markup)
    assert window.names(window.labels()[1])[3].startswith("onerror=alert(1")  # long labels are truncated
    window.point_at(0, 0)
    check_shown_as_text(window, panel.locator(".readout"), f"«{markup}» attends to «{markup}»")
    panel.get_by_text("Weights as a table").click()
    check_shown_as_text(window, panel.locator("th"), markup)

    window.page.get_by_label("Beam width").fill("3")
    window.wait_until_idle()
    panel.get_by_role("tab", name="Beam").click()
    window.wait_until_idle()
    check_shown_as_text(window, panel.locator(".tree .node title"), markup)
    check_shown_as_text(window, panel.locator(".readout:visible"), markup)
    check_shown_as_text(window, panel.get_by_label("n-best list").locator("option").last, markup)
    window.choose_alternative(0, markup)
    check_shown_as_text(window, panel.locator(".tokens .forced .label"), markup)
    panel.locator(".tokens button").first.click()
    check_shown_as_text(window, panel.get_by_role("option"), markup)

    other_window, offline = new_window(), new_window(offline=True)
    other_window.page.goto(window.page.url)
    other_window.wait_until_idle()
    check_shown_as_text(other_window, other_window.panel().locator(".tokens .forced .label"), markup)
    window.expect(other_window.page.locator("#text")).to_have_value(text)
    saved = window.download(window.page.get_by_role("button", name="Save as HTML"), tmp_path)
    offline.page.goto(saved.as_uri())
    check_shown_as_text(offline, offline.page.get_by_role("heading", level=1), text)
    check_shown_as_text(offline, offline.panel().locator(".tokens .label"), markup)
    window.expect(offline.page).to_have_title(f"{text} – Regard")
