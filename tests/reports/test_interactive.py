import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from regard.reports import interactive
from regard.reports.interactive import DATA, MODULES, VIEW, bundle, notebook, saved_page, template

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>",
    "' onload='alert(1)",
    '" onload="alert(1)',
    "&lt;",
    "REGARD_DATA $title ${x}",
    "line\u2028and paragraph\u2029",
    "half of a pair: \ud800",
    "שלום",
]


def page_data(text: str) -> dict[str, Any]:
    hypothesis = {"text": text, "tokens": [text, "<end>"], "labels": [text, "<end>"]}
    translation = {"text": text, "source_tokens": [text], "n_best": [hypothesis], "tree": None}
    return {"title": text, "views": [{"name": text, "about": text, "translation": translation}], "state": {}}


class Parsed(HTMLParser):
    """The tags of a page, and the contents of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        if tag in ("script", "style") and data.strip():
            self.raw.append((attributes, data))
        self.texts.append(data)

    def data(self) -> Any:
        return json.loads(next(text for attributes, text in self.raw if attributes.get("id") == "data"))


def source_of(module: str) -> str:
    return (VIEW / f"{module}.js").read_text(encoding="utf-8")


def imported_by(module: str) -> list[str]:
    return re.findall(r'^import .* from "\./(\w+)\.js";$', source_of(module), flags=re.MULTILINE)


def top_level_names(module: str) -> list[str]:
    declared = r"^(?:export )?(?:async )?(?:function|class|const|let) +(?:\{([^}]*)\}|(\w+))"
    found = re.findall(declared, source_of(module), flags=re.MULTILINE)
    return [name.strip() for several, one in found for name in (several or one).split(",")]


def test_every_module_of_the_view_is_in_the_bundle():
    assert sorted(MODULES) == sorted(path.stem for path in VIEW.glob("*.js"))


def test_a_module_comes_after_those_that_it_imports():
    for index, module in enumerate(MODULES):
        assert set(imported_by(module)) <= set(MODULES[:index]), module


def test_modules_define_distinct_names():
    names = [name for module in MODULES for name in top_level_names(module)]
    assert sorted(set(names)) == sorted(names)


def test_imported_names_are_exported():
    for module in MODULES:
        for names, other in re.findall(r'^import \{ (.*) \} from "\./(\w+)\.js";$', source_of(module), re.MULTILINE):
            exported = re.findall(
                r"^export (?:async )?(?:function|class|const) (\w+)", source_of(other), flags=re.MULTILINE
            )
            assert set(names.split(", ")) <= set(exported), (module, other)


def test_the_bundle_has_no_imports_or_exports():
    assert not re.search(r"^\s*(import|export)\b", bundle(), flags=re.MULTILINE)
    assert "</script" not in bundle().lower()
    assert "<!--" not in bundle()


def test_the_template_has_one_data_placeholder():
    assert template().count(DATA) == 1


def test_the_content_security_policy_allows_exactly_the_pages_content():
    parsed = Parsed(template())
    policy = next(a["content"] for tag, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    script = next(text for attributes, text in parsed.raw if attributes.get("type") == "module")
    style = next(text for attributes, text in parsed.raw if not attributes)
    for kind, content in (("script-src", script), ("style-src", style)):
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not [a for _, a in parsed.tags if {"src", "href", "style", "onclick"} & set(a)]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_escapes_its_element(text: str):
    parsed = Parsed(saved_page(page_data(text)))
    assert parsed.tags == Parsed(template()).tags
    assert parsed.data() == page_data(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_can_be_encoded(text: str):
    assert saved_page(page_data(text)).encode("utf-8")
    assert notebook(page_data(text)).encode("utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_notebook_shows_the_text_and_a_frame_that_holds_the_page(text: str):
    parsed = Parsed(notebook(page_data(text)))
    assert [tag for tag, _ in parsed.tags] == ["p", "iframe"]
    frame = parsed.tags[1][1]
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert frame["srcdoc"] == saved_page(page_data(text))
    assert "".join(parsed.texts) == text.replace("\ud800", "\ufffd")


def test_a_frame_grows_with_the_output_up_to_a_limit():
    def height(tokens: int) -> int:
        data = page_data("text")
        data["views"][0]["translation"]["n_best"][0]["tokens"] = ["a"] * tokens
        return int(re.findall(r"height: (\d+)px", notebook(data))[0])

    assert height(1) < height(6) < height(100) == height(200)


def test_numbers_that_json_cannot_represent_are_refused():
    data = page_data("text")
    data["views"][0]["translation"]["score"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        saved_page(data)


def test_no_heavy_module_is_imported():
    text = Path(interactive.__file__).read_text(encoding="utf-8")
    assert not re.search(r"^(import|from) (torch|matplotlib|numpy)", text, flags=re.MULTILINE)
