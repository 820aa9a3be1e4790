"""The web page in a real browser. The browser and the server start once for all tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import torch

from regard.config.schema import Experiment
from regard.data import Codec
from regard.nn.build import build_model
from regard.runs import MODEL, Run, named_weights
from regard.serving.app import build_app
from regard.serving.limits import Limits
from regard.serving.registry import ServedRun, open_runs
from regard.tasks.files import FilesSection
from regard.text import Vocabulary
from regard.text.learned_tokenization import LearnedTokenization
from regard.text.tokenizers import WhitespaceTokenizer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page

StartServer = Callable[[Any], AbstractContextManager[int]]

# --- runs ------------------------------------------------------------------------------------------------


HEADS = (
    *("model.encoder.kind=self-attention", "model.decoder.kind=transformer", "model.decoder.layers=3"),
    *("model.attention.kind=multi-head", "model.attention.heads=2"),
)
MARKUP = '<img/src="x"/onerror="alert(1)">'
WORDS = [MARKUP, *["שלום", "לכם", "طاب", "يومكم", "注意機構で翻訳する文章", "ある日の午後", "attention"]]


@pytest.fixture(scope="session")
def markup() -> str:
    """A word that is an HTML image with a script."""
    return MARKUP


@pytest.fixture(scope="session")
def scripts_name() -> str:
    """The name of the run `scripts_run`, with markup in it."""
    return f"scripts {MARKUP}"


@pytest.fixture(scope="session")
def scripts_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model with words of many scripts, which mostly generates the markup word."""
    section = FilesSection.model_validate({"train": "train", "validation": "validation", "text": {"unit": "words"}})
    small = {"encoder": {"size": 8, "embedding": 8}, "decoder": {"size": 8, "embedding": 8}}
    limits = {"length_factor": 1, "length_extra": 2}
    experiment = Experiment.model_validate({"data": section, "model": small, "decoding": limits, "description": MARKUP})
    vocabulary = Vocabulary.from_list(WORDS)
    tokenizer = WhitespaceTokenizer()
    codec = Codec(LearnedTokenization(section.text, tokenizer, tokenizer), vocabulary, vocabulary, 20)
    torch.manual_seed(3)
    weights = named_weights(build_model(experiment.model, *codec.sizes))
    biases = weights["decoder.readout.output_layer.bias"]
    biases.zero_()
    biases[vocabulary.to_ids([MARKUP])] = 3.0
    biases[Vocabulary.end] = 2.0
    run = Run.create(tmp_path_factory.mktemp("runs") / "scripts", experiment, codec)
    run.write_tensors(MODEL, weights, {})
    return run.path


@pytest.fixture(scope="session")
def runs(trained: Path, trained_brief: Callable[..., Path], scripts_run: Path, scripts_name: str) -> list[ServedRun]:
    """A run that has learned its task, one with layers and heads, one without attention, and `scripts_run`."""
    runs = open_runs([trained, trained_brief(*HEADS), trained_brief("model.attention.kind=none"), scripts_run])
    tokenization = runs[-1].translator.codec.tokenization
    tokenization.source = tokenization.target = WhitespaceTokenizer()
    names = ("copies", "heads", "no-attention", scripts_name)
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


# --- the browser -----------------------------------------------------------------------------------------


# The headless shell is the same engine without the browser around it: a page opens in a third of the CPU time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
]
TIMEOUT = 15_000  # milliseconds, enough for a busy machine


@pytest.fixture(scope="session")
def playwright_api() -> Any:
    try:
        from playwright import sync_api
    except ImportError:
        _skip_without_browser("Playwright is missing: pip install playwright")
    sync_api.expect.set_options(timeout=TIMEOUT)
    return sync_api


@pytest.fixture(scope="session")
def expect(playwright_api: Any) -> Any:
    """Playwright's `expect`, which waits until its assertion holds."""
    return playwright_api.expect


@pytest.fixture(scope="package")  # not the session: while Playwright runs, this thread cannot run an event loop
def browser(playwright_api: Any) -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        _skip_without_browser("no browser is installed: apt install chromium-headless-shell")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=OPTIONS)
        yield browser
        browser.close()


def _skip_without_browser(reason: str) -> None:
    if os.environ.get("REGARD_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(f"the page is not tested, because {reason}")


@pytest.fixture(scope="package")
def server_url(start_server: StartServer, runs: list[ServedRun]) -> Iterator[str]:
    """The URL of a server of all runs."""
    with start_server(build_app(runs, Limits())) as port:
        yield f"http://127.0.0.1:{port}/"


@dataclass
class Window:
    """A page in the browser."""

    page: Page
    url: str
    expect: Any
    expected_errors: list[str] = field(default_factory=list)  # status codes that the test provokes on purpose

    def open(self, **fields: Any) -> None:
        """Open the page as a link with these fields shows it."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}#{urlencode(fields, doseq=True)}")
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait until no panel waits for a response."""
        self.expect(self.page.locator("section.panel").first).to_be_attached()
        self.expect(self.page.locator("section.panel:not([aria-busy=false])")).to_have_count(0)

    def fields(self) -> list[tuple[str, str]]:
        """The fields in the URL's fragment."""
        return parse_qsl(urlsplit(self.page.url).fragment)

    def type(self, text: str) -> None:
        self.page.get_by_label("Text to translate").fill(text)
        self.wait_until_idle()

    def panel(self, index: int = 0) -> Locator:
        return self.page.locator("section.panel").nth(index)

    def labels(self, panel: int = 0) -> tuple[Locator, Locator]:
        """The labels of the map's rows and of its columns."""
        pinned = self.panel(panel).locator(".map .pinned")
        return pinned.nth(0).locator(".token"), pinned.nth(1).locator(".token")

    def grid(self, panel: int = 0) -> tuple[float, float, float, float]:
        """The map's cells in its picture: x, y, width, height."""
        sizes = "(grid) => ['x', 'y', 'width', 'height'].map((name) => grid[name].baseVal.value)"
        return tuple(self.panel(panel).locator(".map .grid").evaluate(sizes))

    @staticmethod
    def names(labels: Locator) -> list[str]:
        """The texts of labels in a picture, without their tooltips."""
        return labels.evaluate_all("(all) => all.map((label) => label.firstChild.data)")

    def point_at(self, target: int | None, source: int | None, panel: int = 0) -> None:
        """Move the pointer to a cell of the map; None: to the label of the row, or of the column."""
        rows, columns = (side.count() for side in self.labels(panel))
        x, y, width, height = self.grid(panel)
        if source is not None:
            x += (source + 0.5) * width / columns
        if target is not None:
            y += (target + 0.5) * height / rows
        position = {"x": x - 9 * (source is None), "y": y - 9 * (target is None)}  # labels are left of and above it
        self.panel(panel).locator(".map").hover(position=position)

    def translate(self, text: str, run: str = "copies", **options: Any) -> Any:
        """The API's translation of a text, requested as the page requests it."""
        body = {"texts": [text], "run": run, "attention": True, "alternatives": 8, "tree": True}
        body |= {"n_best": min(options.get("beam", 1), 5), **options}
        response = self.page.request.post(f"{self.url}api/translate", data=body)
        assert response.ok, response.text()
        return response.json()["translations"][0]

    def download(self, button: Locator, folder: Path) -> Path:
        """The file that a button downloads, under its suggested name."""
        with self.page.expect_download() as download:
            button.click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def choose_alternative(self, index: int, token: str, panel: int = 0) -> None:
        """Open the alternatives of an output token, and choose one."""
        self.panel(panel).locator(".tokens button").nth(index).click()
        names = self.panel(panel).locator("[role=option] bdi")
        names.nth(names.all_inner_texts().index(token)).click()
        self.wait_until_idle()


@pytest.fixture
def new_window(browser: Browser, server_url: str, expect: Any) -> Iterator[Callable[..., Window]]:
    """Opens windows, with options of a browser context. At the end of the test, none may have reported a problem."""
    problems: list[str] = []
    with ExitStack() as stack:

        def create(url: str = server_url, **options: Any) -> Window:
            settings = {"viewport": {"width": 1200, "height": 1000}, "reduced_motion": "reduce", **options}
            context = browser.new_context(**settings)
            stack.callback(context.close)
            context.set_default_timeout(TIMEOUT)
            window = Window(context.new_page(), url, expect)
            record_problems(context, window, problems)
            return window

        yield create
    assert problems == []


def record_problems(context: BrowserContext, window: Window, problems: list[str]) -> None:
    """Record script errors, policy violations, requests to other hosts, and dialogs."""

    def record_message(message: ConsoleMessage) -> None:
        is_expected = "Failed to load resource" in message.text and any(
            each in message.text for each in window.expected_errors
        )
        if message.type in ("error", "warning") and not is_expected:
            problems.append(message.text)

    context.on("console", record_message)
    context.on("weberror", lambda error: problems.append(str(error.error)))
    context.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
    own = (window.url, "file:", "data:", "blob:", "about:")
    context.on("request", lambda request: request.url.startswith(own) or problems.append(request.url))


@pytest.fixture
def window(new_window: Callable[..., Window]) -> Window:
    return new_window()
