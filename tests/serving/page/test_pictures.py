"""The page with a run that reads pictures: examples, drawing, files, and the weights over the picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.images import picture_from_uri
from regard.serving.app import build_app
from regard.serving.limits import Limits
from regard.serving.registry import open_runs

pytestmark = pytest.mark.slow

DROP = """(node, { name, bytes, type }) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([new Uint8Array(bytes)], name, { type }));
  node.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""
PASTE = DROP.replace('"drop", { dataTransfer:', '"paste", { clipboardData:').replace("DragEvent", "ClipboardEvent")


@pytest.fixture(scope="module")
def url(start_server: Any, reads_pictures: Path, trained: Path) -> Iterator[str]:
    with start_server(build_app(open_runs([reads_pictures, trained]), Limits())) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def window(new_window: Callable[..., Any], url: str) -> Any:
    window = new_window(url)
    window.open()
    return window


def sent_picture(window: Any, act: Callable[[], object]) -> str:
    """The picture in the request that an action causes."""
    with window.page.expect_request("**/api/translate") as request:
        act()
    window.wait_until_idle()
    (text,) = request.value.post_data_json["texts"]
    return str(text)


def examples(window: Any) -> list[str]:
    return window.page.request.get(f"{window.url}api/runs").json()["runs"][0]["examples"]


def test_the_first_example_is_shown_with_its_patches(window: Any, expect: Any) -> None:
    expect(window.page.locator("#text")).to_be_hidden()
    expect(window.page.locator("canvas")).to_be_visible()
    picture = window.panel().get_by_role("img", name="the picture that was read")
    width = picture_from_uri(examples(window)[0]).width
    expect(picture.locator(".target")).to_have_count(-(-width // 4))
    assert picture.locator("image").get_attribute("href").startswith("data:image/png;base64,")


def test_an_example_is_sent_as_it_is(window: Any) -> None:
    known = examples(window)
    buttons = window.page.get_by_role("group", name="example").get_by_role("button")
    assert buttons.count() == len(known) == 5
    assert sent_picture(window, buttons.nth(3).click) == known[3]


def test_the_weights_of_a_token_color_the_patches(window: Any, expect: Any) -> None:
    picture = window.panel().locator(".source-image")
    expect(picture.locator("> g").first.locator(".weight")).to_have_count(0)
    window.panel().locator(".tokens button").first.hover()
    assert picture.locator("> g").first.locator(".weight").count() > 0
    patch = picture.locator(".target").nth(2)
    patch.hover()
    expect(picture.locator(".frame")).to_have_count(1)
    expect(window.panel().locator(".readout")).to_contain_text("«3» is attended to by")
    _, columns = window.labels()
    assert columns.nth(2).get_attribute("class") == "token highlighted"


def test_a_drawing_is_sent_when_the_pen_is_lifted(window: Any) -> None:
    window.page.get_by_role("button", name="Clear").click()
    window.wait_until_idle()
    box = window.page.locator("canvas").bounding_box()

    def draw() -> None:
        window.page.mouse.move(box["x"] + 100, box["y"] + 30)
        window.page.mouse.down()
        window.page.mouse.move(box["x"] + 100, box["y"] + 100, steps=4)
        window.page.mouse.up()

    picture = picture_from_uri(sent_picture(window, draw)).convert("L")
    assert picture.size == (640, 128)
    assert (picture.getpixel((100, 60)), picture.getpixel((300, 60))) == (0, 255)
    # Clearing removes it.
    window.page.get_by_role("button", name="Clear").click()
    window.wait_until_idle()
    assert window.page.locator("#text").input_value() == ""


@pytest.mark.parametrize("how", ["choose", "drop", "paste"])
def test_a_file_is_sent_as_it_is(window: Any, tmp_path: Path, how: str) -> None:
    known = examples(window)[1]
    path = tmp_path / "a.png"
    picture_from_uri(known).save(path)
    area = window.page.locator(".picture-input")
    file = {"name": "a.png", "bytes": list(path.read_bytes()), "type": "image/png"}
    actions = {
        "choose": lambda: window.page.get_by_label("Picture file").set_input_files(path),
        "drop": lambda: area.evaluate(DROP, file),
        "paste": lambda: area.evaluate(PASTE, file),
    }
    sent = picture_from_uri(sent_picture(window, actions[how]))
    assert sent.tobytes() == picture_from_uri(known).tobytes()


def test_a_file_that_is_no_picture_is_refused(window: Any, tmp_path: Path, expect: Any) -> None:
    (tmp_path / "a.txt").write_text("hello")
    window.page.get_by_label("Picture file").set_input_files(tmp_path / "a.txt")
    expect(window.page.locator("#problem")).to_contain_text("a.txt is not a picture")


def test_a_run_that_reads_texts_has_the_text_field(window: Any, trained: Path, expect: Any) -> None:
    other = window.page.get_by_label("Compare with")
    expect(other.locator("option", has_text=trained.name)).to_be_disabled()
    window.page.get_by_label("Run", exact=True).select_option(trained.name)
    window.wait_until_idle()
    expect(window.page.locator("canvas")).to_be_hidden()
    expect(window.panel().locator(".source-image")).to_have_count(0)
    window.type("abc")
    expect(window.panel().locator(".translation")).to_have_text("abc")


def test_a_saved_page_has_the_picture(window: Any, tmp_path: Path, expect: Any) -> None:
    saved = window.download(window.page.get_by_role("button", name="Save as HTML"), tmp_path)
    assert len(saved.name) < 80
    window.page.goto(saved.as_uri())
    expect(window.page.locator(".source-image .target").first).to_be_attached()
    expect(window.page.locator("h1#source")).to_be_hidden()
    window.panel().locator(".tokens button").first.hover()
    assert window.page.locator(".source-image .weight").count() > 0


def test_a_link_shows_the_same_picture(window: Any, expect: Any) -> None:
    known = examples(window)
    window.page.get_by_role("group", name="example").get_by_role("button").nth(2).click()
    window.wait_until_idle()
    window.page.reload()
    window.wait_until_idle()
    assert window.page.locator("#text").input_value() == known[2]
