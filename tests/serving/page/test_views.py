"""The views of a translation: the map, lines, heads, and the beam tree."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = pytest.mark.slow


# --- pointing --------------------------------------------------------------------------------------------


def number_in(text: str) -> float:
    return float(text.rpartition(" ")[2])


def test_a_cell_under_the_pointer_highlights_its_row_and_column_and_shows_its_weight(window: Any, expect: Any):
    window.open(run="heads", text="abdae", head=2, layer=1)
    translation = window.translate("abdae", "heads")
    best = translation["n_best"][0]
    panel = window.panel()
    for output, source in [(0, 0), (2, 4), (len(best["labels"]) - 1, 1)]:
        window.point_at(output, source)
        row, column = best["labels"][output], translation["source_labels"][source]
        expect(panel.locator(".readout")).to_contain_text(f"«{row}» attends to «{column}»: ")
        assert number_in(panel.locator(".readout").inner_text()) == pytest.approx(
            best["attention"][0][1][output][source], abs=0.00501
        )
        rows, columns = window.labels()
        for labels, index in ((rows, output), (columns, source)):
            highlighted = labels.evaluate_all("(all) => all.map((label) => label.classList.contains('highlighted'))")
            assert [number for number, is_highlighted in enumerate(highlighted) if is_highlighted] == [index]
        expect(panel.locator(".map .frame")).to_have_count(3)
        frame, name = panel.locator(".map .frame.cell").bounding_box(), columns.nth(source).bounding_box()
        assert frame["x"] <= name["x"] + name["width"] / 2 <= frame["x"] + frame["width"]
        expect(panel.locator(".tokens button").nth(output)).to_have_class("token highlighted")


def test_a_label_under_the_pointer_shows_the_highest_weights_of_its_row_or_column(window: Any, expect: Any):
    window.open(run="heads", text="abd", layer=1, head=2)
    translation = window.translate("abd", "heads")
    weights = translation["n_best"][0]["attention"][0][1]
    labels, source_labels = translation["n_best"][0]["labels"], translation["source_labels"]
    readout, highlighted = window.panel().locator(".readout"), window.panel().locator(".map .token.highlighted")

    window.point_at(1, None)
    strongest = max(range(len(source_labels)), key=lambda index: weights[1][index])
    expect(readout).to_contain_text(
        f"«{labels[1]}» attends to «{source_labels[strongest]}» {weights[1][strongest]:.2f}"
    )
    expect(highlighted).to_have_count(1)
    expect(window.panel().locator(".map .frame")).to_have_count(1)

    window.point_at(None, 2)
    column = [row[2] for row in weights]
    strongest = max(range(len(labels)), key=lambda index: column[index])
    expect(readout).to_contain_text(f"«d» is attended to by «{labels[strongest]}» {column[strongest]:.2f}")
    expect(highlighted).to_have_count(1)


def test_highlights_end_when_the_pointer_leaves(window: Any, expect: Any):
    window.open(text="abc")
    window.point_at(1, 1)
    expect(window.panel().locator(".highlighted")).to_have_count(3)
    window.page.mouse.move(5, 5)
    expect(window.panel().locator(".highlighted, .frame")).to_have_count(0)
    expect(window.panel().locator(".readout")).to_be_empty()


def test_a_token_under_the_pointer_highlights_its_row(window: Any, expect: Any):
    window.open(text="abc")
    window.panel().locator(".tokens button").nth(2).hover()
    rows, _ = window.labels()
    expect(rows.nth(2)).to_have_class("token highlighted")
    expect(window.panel().locator(".readout")).to_contain_text("«c» attends to «c»")


def test_line_widths_are_proportional_to_weights(window: Any, expect: Any):
    window.open(run="heads", text="abdae", layer=1, head=2)
    window.panel().get_by_role("tab", name="Lines").click()
    weights = window.translate("abdae", "heads")["n_best"][0]["attention"][0][1]
    widths = "(lines) => lines.map((line) => parseFloat(line.style.strokeWidth) / 14).sort()"
    drawn = window.panel().locator(".lines .line")
    assert drawn.evaluate_all(widths) == pytest.approx(sorted(weight for row in weights for weight in row), abs=1e-6)
    assert ("view", "lines") in window.fields()

    labels = window.panel().locator(".lines .token")
    labels.nth(len(weights[0]) + 1).hover()
    assert window.panel().locator(".lines .highlighted.line").evaluate_all(widths) == pytest.approx(
        sorted(weights[1]), abs=1e-6
    )


def test_a_head_can_be_selected(window: Any, expect: Any):
    window.open(run="heads", text="abd")
    attention = window.translate("abd", "heads")["n_best"][0]["attention"]
    readout = window.panel().locator(".readout")

    window.point_at(1, 2)
    expect(readout).to_have_text(text_that_ends_with(sum(head[1][2] for layer in attention for head in layer) / 6))
    expect(window.panel().get_by_role("radio")).to_have_count(3 + 7)
    expect(window.panel().get_by_role("radio", name="mean of all")).to_be_checked()
    window.panel().get_by_text("head 2").nth(2).click()
    expect(window.panel().get_by_role("radio", name="layer 3 · head 2")).to_be_checked()
    window.point_at(1, 2)
    expect(readout).to_have_text(text_that_ends_with(attention[2][1][1][2]))
    assert {("layer", "3"), ("head", "2")} <= set(window.fields())


def text_that_ends_with(weight: float) -> Any:
    return re.compile(f": {weight:.2f}$")


# --- self-attention --------------------------------------------------------------------------------------


def test_self_attention_can_be_shown(window: Any, expect: Any):
    window.open(run="heads", text="abdae")
    translation = window.translate("abdae", "heads", self_attention=True)
    best = translation["n_best"][0]
    panel, readout = window.panel(), window.panel().locator(".readout")

    window.point_at(1, 2)
    before = readout.inner_text()
    panel.get_by_role("radio", name="within the encoder").check()
    window.wait_until_idle()
    expect(panel.get_by_role("radio", name="within the encoder")).to_be_checked()
    expect(panel.locator(".map .pinned .caption").first).to_have_text("source →")
    assert [window.names(side) for side in window.labels()] == [translation["source_labels"]] * 2
    panel.get_by_role("radio", name="layer 1 · head 3").check(force=True)
    window.point_at(4, 1)
    expect(readout).to_have_text(f"«e» attends to «b»: {translation['encoder_attention']['weights'][0][2][4][1]:.2f}")
    expect(panel.locator(".tokens .highlighted")).to_have_count(0)
    assert {("attention", "encoder"), ("layer", "1"), ("head", "3")} <= set(window.fields())

    panel.get_by_role("radio", name="within the decoder").check()
    window.wait_until_idle()
    expect(panel.get_by_role("radio", name="mean of all")).to_be_checked()
    recorded = best["decoder_attention"]
    assert [window.names(side) for side in window.labels()] == [best["labels"], recorded["labels"]]
    assert recorded["labels"][0] == "<begin>"
    panel.get_by_role("radio", name="layer 2 · head 1").check(force=True)
    window.point_at(2, 1)
    weight = recorded["weights"][1][0][2][1]
    expect(readout).to_have_text(f"«{best['labels'][2]}» attends to «{recorded['labels'][1]}»: {weight:.2f}")
    window.point_at(1, 3)
    expect(readout).to_have_text(text_that_ends_with(0))
    expect(panel.locator(".tokens .highlighted")).to_have_count(1)

    panel.get_by_role("radio", name="to the source").check()
    window.point_at(1, 2)
    expect(readout).to_have_text(before)
    assert "attention" not in dict(window.fields())


def test_a_link_shows_self_attention_and_it_follows_the_text(window: Any, expect: Any):
    window.open(run="heads", text="abd", attention="decoder", layer=3, head=4)
    expect(window.panel().get_by_role("radio", name="within the decoder")).to_be_checked()
    expect(window.panel().get_by_role("radio", name="layer 3 · head 4")).to_be_checked()
    for text in ("abd", "edc"):
        window.type(text)
        recorded = window.translate(text, "heads", self_attention=True)["n_best"][0]["decoder_attention"]
        assert window.names(window.labels()[1]) == recorded["labels"]
    window.panel().get_by_role("tab", name="Lines").click()
    expect(window.panel().locator(".lines .caption").first).to_have_text("input")


@pytest.mark.parametrize("attention", ["encoder", "<img src=x>", "__proto__"])
def test_a_model_without_self_attention_shows_the_attention_to_the_source(window: Any, expect: Any, attention: str):
    window.open(run="copies", text="abc", attention=attention)
    expect(window.panel().get_by_role("radio")).to_have_count(0)
    expect(window.panel().locator(".map .pinned .caption").first).to_have_text("source →")
    assert window.names(window.labels()[0]) == ["a", "b", "c", "<end>"]


def test_self_attention_is_requested_only_when_it_is_shown(window: Any, expect: Any):
    requests: list[bool] = []
    window.page.on(
        "request", lambda each: each.post_data_json and requests.append(each.post_data_json["self_attention"])
    )
    window.open(run="heads", text="abd")
    assert requests == [False]
    window.panel().get_by_role("radio", name="within the decoder").check()
    window.wait_until_idle()
    window.panel().get_by_role("radio", name="within the encoder").check()
    window.wait_until_idle()
    expect(window.panel().locator(".map")).to_have_count(1)
    assert requests == [False, True], "one response has both"


def test_a_token_under_the_pointer_highlights_no_row_of_the_encoder(window: Any, expect: Any):
    window.open(run="heads", text="abd", attention="encoder")
    window.panel().locator(".tokens button").nth(1).hover()
    expect(window.panel().locator(".tokens .highlighted")).to_have_count(1)
    expect(window.panel().locator(".map .highlighted, .map .frame")).to_have_count(0)


# --- the beam --------------------------------------------------------------------------------------------


def score(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def step_in_words(tree: list[dict[str, Any]], step: int, steps: int) -> str:
    text = f"Step {step} of {steps}."
    for fate in ("kept", "finished", "truncated", "pruned"):
        members = [
            f"«{node['label']}» {score(node['score'])}"
            for node in tree
            if (node["length"], node["fate"]) == (step, fate)
        ]
        more = f" and {len(members) - 5} more" if len(members) > 5 else ""
        text += f" {fate.capitalize()}: {', '.join(members[:5])}{more}." if members else ""
    return text


@pytest.fixture
def beam(window: Any, scripts_name: str) -> tuple[Any, list[dict[str, Any]]]:
    """A window on a beam tree with nodes of every kind, and the tree from the API."""
    tree = window.translate("attention attention", scripts_name, beam=3)["tree"]
    assert {node["fate"] for node in tree} == {"kept", "finished", "truncated", "pruned"}
    window.open(run=scripts_name, text="attention attention", beam=3)
    window.panel().get_by_role("tab", name="Beam").click()
    window.expect(window.panel().locator(".tree")).to_be_visible()
    return window, tree


def test_every_hypothesis_has_a_node(beam: Any):
    window, tree = beam
    boxes = (
        window.panel()
        .locator(".tree .node[data-number]")
        .evaluate_all(
            """(all) => all.map((box) => [
          box.querySelector("title").textContent,
          box.querySelector(".score").textContent,
          box.querySelector(".rank")?.textContent ?? null,
          [...box.classList].at(-1),
        ])"""
        )
    )
    for node, (token, shown_score, rank, style) in zip(tree, boxes, strict=True):
        assert (token, shown_score) == (node["token"], score(node["score"]))
        assert rank == (f"#{node['rank']}" if node["rank"] else None)
        assert style == node["fate"].replace(" ", "-") or (node["fate"], style) == ("kept", "best")
    assert sum(rank is not None for _, _, rank, _ in boxes) == 3
    positions = (
        window.panel()
        .locator(".tree .node[data-number] rect:first-child")
        .evaluate_all("(all) => all.map((box) => box.x.baseVal.value)")
    )
    assert len(set(positions)) == max(node["length"] for node in tree)
    assert all(positions[node["parent"]] < index for node, index in zip(tree, positions, strict=True) if node["parent"])


def test_the_beam_can_be_stepped_forward_and_back(beam: Any, expect: Any):
    window, tree = beam
    panel, steps = window.panel(), max(node["length"] for node in tree)
    shown = panel.locator(".tree .node[data-number]:not(.later)")
    words, counter = panel.locator(".readout:visible"), panel.locator(".counter")

    def check_step(step: int) -> None:
        expect(counter).to_have_text(f"step {step} of {steps}")
        expect(panel.get_by_role("slider")).to_have_value(str(step))
        expect(shown).to_have_count(sum(node["length"] <= step for node in tree))
        expect(words).to_have_text(step_in_words(tree, step, steps) if step else re.compile("Before the first step"))
        assert dict(window.fields()).get("step") == (None if step == steps else str(step))

    check_step(steps)
    panel.get_by_role("button", name="first step").click()
    check_step(0)
    for step in range(1, steps + 1):
        panel.get_by_role("button", name="next step").click()
        check_step(step)
    panel.get_by_role("button", name="previous step").click()
    check_step(steps - 1)
    panel.get_by_role("slider").fill("2")
    check_step(2)
    panel.get_by_role("button", name="last step").click()
    check_step(steps)


def test_a_node_under_the_pointer_shows_its_path_score_and_state(beam: Any, expect: Any):
    window, tree = beam
    number, node = next((index, node) for index, node in enumerate(tree) if node["rank"] == 2)
    window.panel().locator(f".node[data-number='{number}']").hover()
    path = [number]
    while (parent := tree[path[0]]["parent"]) is not None:
        path.insert(0, parent)
    labels = " ".join(f"«{tree[index]['label']}»" for index in path)
    expect(window.panel().locator(".readout:visible")).to_have_text(
        f"{labels} · score {score(node['score'])} · finished · #2 of the results"
    )
    highlighted = (
        window.panel()
        .locator(".node.highlighted")
        .evaluate_all("(all) => all.map((box) => Number(box.dataset.number))")
    )
    assert highlighted == path
