import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from regard.errors import UserError
from regard.reports import examples
from regard.reports.example_selection import ExampleSentence
from regard.reports.examples import write_examples

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '" onload="alert(1)',
    "$title ${x}",
    "&lt;",
]


def a_sentence(number: int, text: str = "Haus", size: int = 10) -> ExampleSentence:
    generator = torch.Generator().manual_seed(number)
    weights = torch.rand(size + 1, size + 1, generator=generator)
    tokens = (*["▁" + text, "er"] * (size // 2), "<end>")
    starts = (*[True, False] * (size // 2), True)
    weights /= weights.sum(1, keepdim=True)
    return ExampleSentence(
        number, text, f"output {text}", f"reference {text}", tokens, tokens, starts, starts, weights, number % 100
    )


class Page(HTMLParser):
    """The parsed page: all tags with their attributes, and texts."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed((folder / "index.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, tag: str, attribute: str) -> list[str]:
        return [found[attribute] or "" for name, found in self.tags if name == tag and attribute in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "examples"
    write_examples(folder, [a_sentence(number) for number in range(1, 13)], "a title", {"BLEU": "12.3"})
    return folder


def test_the_folder_contains_exactly_the_pictures_of_the_page(folder: Path) -> None:
    page = Page(folder)
    pictures = page.values("img", "src")
    assert len(pictures) == len(set(pictures)) == 12
    assert sorted(os.listdir(folder)) == sorted(["index.html", *pictures])
    assert set(page.values("img", "loading")) == {"lazy"}
    for name in pictures:
        assert ElementTree.parse(folder / name).getroot().tag.endswith("svg")


def test_pictures_have_the_size_stated_on_the_page(folder: Path) -> None:
    page = Page(folder)
    sizes = zip(page.values("img", "src"), page.values("img", "width"), page.values("img", "height"), strict=True)
    for name, width, height in sizes:
        box = ElementTree.parse(folder / name).getroot().attrib["viewBox"].split()
        assert [round(float(side)) for side in box[2:]] == [int(width), int(height)]


def test_pictures_keep_text_as_text_in_a_font_that_exists_everywhere(folder: Path) -> None:
    picture = (folder / "sentence-1.svg").read_text(encoding="utf-8")
    assert ">Haus</text>" in picture
    assert ">‑er</text>" in picture
    assert all("sans-serif" in style for style in re.findall('font-family: [^;"]*', picture))


def test_the_page_states_title_criteria_and_scores(folder: Path) -> None:
    page = Page(folder)
    page_text = " ".join(page.texts)
    for expected in ("a title", "BLEU", "12.3", "Haus", "output Haus", "reference Haus", "Sentence 12", "score 12.0"):
        assert expected in page_text
    for expected in ("Reordering", "distance back", "words back · score", "spread"):
        assert expected in page_text
    assert "no attention" not in page_text


def test_links_resolve_within_the_page_and_nothing_is_loaded_from_elsewhere(folder: Path) -> None:
    page = Page(folder)
    positions = {found["id"] for _, found in page.tags if "id" in found}
    links = page.values("a", "href")
    assert {link[1:] for link in links if link.startswith("#")} == positions
    assert {link for link in links if not link.startswith("#")} == set(page.values("img", "src"))
    assert not re.search(r"https?:|//|@import|url\(", (folder / "index.html").read_text().replace("// The current", ""))


def test_neighbors_are_linked_in_page_order(folder: Path) -> None:
    text = (folder / "index.html").read_text()
    order = re.findall('<article id="([^"]*)"', text)
    assert re.findall('href="#([^"]*)" aria-label="next"', text) == order[1:]
    assert re.findall('href="#([^"]*)" aria-label="previous"', text) == order[:-1]


def test_texts_of_any_direction_and_no_known_language(folder: Path) -> None:
    texts = [found for tag, found in Page(folder).tags if tag == "dd" and "class" in found]
    assert len(texts) == 3 * 12
    assert all(found["dir"] == "auto" and found["lang"] == "" for found in texts)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_texts_are_escaped(tmp_path: Path, hostile: str) -> None:
    harmless, attacked = tmp_path / "harmless", tmp_path / "attacked"
    write_examples(harmless, [a_sentence(1)], "title", {"name": "fact"})
    evil = replace(a_sentence(1, hostile), output=hostile, reference=hostile)
    write_examples(attacked, [evil], hostile, {hostile: hostile})
    page = Page(attacked)
    assert [(tag, list(found)) for tag, found in page.tags] == [
        (tag, list(found)) for tag, found in Page(harmless).tags
    ]
    assert page.texts.count(hostile) == 7, "as written: page title, heading, fact and its name, three texts"
    picture = ElementTree.parse(attacked / "sentence-1.svg")
    assert not [tag for tag in picture.iter() if tag.tag.endswith("script") or "onerror" in tag.attrib]


def test_texts_that_cannot_be_encoded_are_accepted(tmp_path: Path) -> None:
    write_examples(tmp_path / "e", [a_sentence(1, "\ud800\x00")], "\ud800", {})
    assert b"&#55296;" in (tmp_path / "e" / "index.html").read_bytes()


def test_the_same_sentences_give_the_same_bytes(tmp_path: Path) -> None:
    sentences = [a_sentence(number) for number in (1, 2, 3)]
    for name in ("a", "b"):
        write_examples(tmp_path / name, sentences, "title", {})
    assert sorted(os.listdir(tmp_path / "a")) == sorted(os.listdir(tmp_path / "b"))
    for name in os.listdir(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_existing_folder_is_replaced_without_leftovers(tmp_path: Path) -> None:
    folder = tmp_path / "new run" / "examples"
    write_examples(folder, [a_sentence(1)], "old", {})
    write_examples(folder, [a_sentence(2)], "new", {})
    assert sorted(os.listdir(folder)) == ["index.html", "sentence-2.svg"]
    assert os.listdir(folder.parent) == ["examples"]


def test_a_failure_leaves_the_existing_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "examples"
    write_examples(folder, [a_sentence(1)], "old", {})
    before = (folder / "index.html").read_bytes()

    def fail(*_: object) -> str:
        assert (folder / "index.html").read_bytes() == before, "the old page still exists"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(examples, "_examples_page", fail)
    with pytest.raises(UserError, match="cannot write the examples: No space left on device"):
        write_examples(folder, [a_sentence(2)], "new", {})
    assert os.listdir(tmp_path) == ["examples"]
    assert sorted(os.listdir(folder)) == ["index.html", "sentence-1.svg"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(UserError, match="not a folder of examples"):
        write_examples(tmp_path, [a_sentence(1)], "title", {})
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_model_without_attention_has_no_pictures_and_a_note(tmp_path: Path) -> None:
    without_attention = [replace(a_sentence(n), weights=torch.zeros(11, 11)) for n in range(1, 20)]
    write_examples(tmp_path / "examples", without_attention, "title", {})
    assert os.listdir(tmp_path / "examples") == ["index.html"]
    page = Page(tmp_path / "examples")
    assert "This model has no attention" in " ".join(page.texts)
    assert len(page.values("article", "id")) == 10


def test_a_page_without_sentences_has_a_note(tmp_path: Path) -> None:
    write_examples(tmp_path / "examples", [], "title", {})
    assert "no sentences to show" in " ".join(Page(tmp_path / "examples").texts)


def test_empty_and_truncated_outputs_are_marked(tmp_path: Path) -> None:
    whole = a_sentence(1)
    nothing = ExampleSentence(2, "x", " ", "y", (), ("x", "<end>"), (), (), torch.zeros(0, 2), 0.0)
    unfinished = replace(whole, tokens=whole.tokens[:-1], starts=whole.starts[:-1], weights=whole.weights[:-1])
    write_examples(tmp_path / "examples", [nothing, unfinished], "title", {})
    assert sorted(os.listdir(tmp_path / "examples")) == ["index.html", "sentence-1.svg"]
    page_text = Page(tmp_path / "examples").texts
    assert page_text.count("(nothing)") == 1
    assert page_text.count("(truncated at the maximum length)") == 1
