"""Servers to ask, within this process or by a socket, and a browser to look at their pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import torch
from starlette.testclient import TestClient

from regard.config.schema import Experiment
from regard.data import Codec
from regard.nn.build import build_model
from regard.runs import MODEL, Run, named_weights
from regard.serving.app import build_app
from regard.serving.limits import Limits
from regard.serving.registry import ServedRun, open_runs
from regard.serving.server import Server, listen
from regard.tasks.learned import LearnedTokenization
from regard.tasks.parallel import Files
from regard.text import Vocabulary
from regard.text.tokenizers import Spaced

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page

Ask = Callable[..., TestClient]
Serving = Callable[[Any], AbstractContextManager[int]]


@pytest.fixture
def ask(trained: Path) -> Iterator[Ask]:
    """A client of a new server; `limits` and how it is guarded can be chosen."""
    with ExitStack() as stack:

        def start(*runs: Path, token: str | None = None, origins: tuple[str, ...] = (), **limits: Any) -> TestClient:
            app = build_app(open_runs(runs or [trained]), Limits(**limits), token=token, origins=origins)
            return stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False))

        yield start


@pytest.fixture(scope="session")
def serving() -> Serving:
    """A server on a port of its own while a `with` lasts; what it gives is the port."""

    @contextmanager
    def serve(app: Any) -> Iterator[int]:
        started = Event()
        with listen("127.0.0.1", 0) as listening:
            server = Server(app, 1, started.set)
            thread = Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                assert started.wait(30)
                yield listening.getsockname()[1]
            finally:
                server.should_exit = True
                thread.join()

    return serve


# --- runs to look into -----------------------------------------------------------------------------------


HEADS = (
    *("model.encoder.kind=self-attention", "model.decoder.kind=transformer", "model.decoder.layers=3"),
    *("model.attention.kind=multi-head", "model.attention.heads=2"),
)
HOSTILE = '<img/src="x"/onerror="alert(1)">'
WORDS = [HOSTILE, *["שלום", "לכם", "طاب", "يومكم", "注意機構で翻訳する文章", "ある日の午後", "attention"]]


@pytest.fixture(scope="session")
def hostile() -> str:
    """A word that says it is an image, and that there is something to run."""
    return HOSTILE


@pytest.fixture(scope="session")
def babble_name() -> str:
    """Somebody may call a run like this."""
    return f"babble {HOSTILE}"


@pytest.fixture(scope="session")
def babble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads and says words of many scripts, the hostile one above all. Nobody has taught it anything."""
    task = Files.model_validate({"train": "train", "validation": "validation", "text": {"unit": "words"}})
    small = {"encoder": {"size": 8, "embedding": 8}, "decoder": {"size": 8, "embedding": 8}}
    limits = {"length_factor": 1, "length_extra": 2}
    experiment = Experiment.model_validate({"data": task, "model": small, "decoding": limits, "description": HOSTILE})
    vocabulary = Vocabulary.listed(WORDS)
    codec = Codec(LearnedTokenization(task.text, Spaced(), Spaced()), vocabulary, vocabulary, 20)
    torch.manual_seed(3)
    weights = named_weights(build_model(experiment.model, *codec.sizes))
    biases = weights["decoder.readout.output_layer.bias"]
    biases.zero_()
    biases[vocabulary.numbers([HOSTILE])] = 3.0
    biases[Vocabulary.end] = 2.0
    run = Run.create(tmp_path_factory.mktemp("runs") / "babble", experiment, codec)
    run.write_tensors(MODEL, weights, {})
    return run.path


@pytest.fixture(scope="session")
def served(trained: Path, trained_brief: Callable[..., Path], babble: Path, babble_name: str) -> list[ServedRun]:
    """One that is sure of what it says, one with layers and heads, one without attention, and one that is strange."""
    runs = open_runs([trained, trained_brief(*HEADS), trained_brief("model.attention.kind=none"), babble])
    tokenization = runs[-1].translator.codec.tokenization
    tokenization.source = tokenization.target = (
        Spaced()
    )  # what stands between spaces is one token, whatever marks it has
    names = ("copies", "heads", "blind", babble_name)
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


# --- a browser -------------------------------------------------------------------------------------------


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
]
PATIENCE = 15_000  # milliseconds, for a machine that has much else to do


@pytest.fixture(scope="session")
def playwright_api() -> Any:
    try:
        from playwright import sync_api
    except ImportError:
        _without_browser("Playwright is missing: pip install playwright")
    sync_api.expect.set_options(timeout=PATIENCE)
    return sync_api


@pytest.fixture(scope="session")
def expect(playwright_api: Any) -> Any:
    """Playwright's: waits until something holds."""
    return playwright_api.expect


@pytest.fixture(scope="module")  # not longer: while Playwright runs, nobody else in this thread can run an event loop
def browser(playwright_api: Any) -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        _without_browser("no browser is installed: apt install chromium")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


def _without_browser(reason: str) -> None:
    if os.environ.get("REGARD_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(f"the page is not tested, because {reason}")


@pytest.fixture(scope="module")
def address(serving: Serving, served: list[ServedRun]) -> Iterator[str]:
    """Where a server of all the runs is."""
    with serving(build_app(served, Limits())) as port:
        yield f"http://127.0.0.1:{port}/"


@dataclass
class Window:
    """A page in the browser."""

    page: Page
    address: str
    expect: Any
    provoked: list[str] = field(default_factory=list)  # what may stand in the browser's complaints about an answer

    def open(self, **told: Any) -> None:
        """The live page, as a link with these fields shows it."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}#{urlencode(told, doseq=True)}")
        self.settle()

    def settle(self) -> None:
        """Until there is nothing more to wait for."""
        self.expect(self.page.locator("section.panel").first).to_be_attached()
        self.expect(self.page.locator("section.panel:not([aria-busy=false])")).to_have_count(0)

    def told(self) -> list[tuple[str, str]]:
        """What the address says."""
        return parse_qsl(urlsplit(self.page.url).fragment)

    def type(self, text: str) -> None:
        self.page.get_by_label("Sentence to translate").fill(text)
        self.settle()

    def panel(self, number: int = 0) -> Locator:
        return self.page.locator("section.panel").nth(number)

    def labels(self, panel: int = 0) -> tuple[Locator, Locator]:
        """Those of the map's rows and of its columns."""
        pinned = self.panel(panel).locator(".map .pinned")
        return pinned.nth(0).locator(".token"), pinned.nth(1).locator(".token")

    def grid(self, panel: int = 0) -> tuple[float, float, float, float]:
        """Where the cells of the map lie in its picture: x, y, width, height."""
        sizes = "(grid) => ['x', 'y', 'width', 'height'].map((name) => grid[name].baseVal.value)"
        return tuple(self.panel(panel).locator(".map .grid").evaluate(sizes))

    @staticmethod
    def names(labels: Locator) -> list[str]:
        """What labels in a picture say; not what they tell when one rests on them."""
        return labels.evaluate_all("(all) => all.map((label) => label.firstChild.data)")

    def point_at(self, output: int | None, source: int | None, panel: int = 0) -> None:
        """The pointer on a cell of the map; None: on the label of the row, or of the column."""
        rows, columns = (side.count() for side in self.labels(panel))
        x, y, width, height = self.grid(panel)
        if source is not None:
            x += (source + 0.5) * width / columns
        if output is not None:
            y += (output + 0.5) * height / rows
        spot = {"x": x - 9 * (source is None), "y": y - 9 * (output is None)}  # labels stand before and above the grid
        self.panel(panel).locator(".map").hover(position=spot)

    def answer(self, text: str, run: str = "copies", **wanted: Any) -> Any:
        """The API's, asked as the page asks."""
        question = {"texts": [text], "run": run, "attention": True, "alternatives": 8, "tree": True}
        question |= {"n_best": min(wanted.get("beam", 1), 5), **wanted}
        response = self.page.request.post(f"{self.address}api/translate", data=question)
        assert response.ok, response.text()
        return response.json()["translations"][0]

    def download(self, press: Locator, folder: Path) -> Path:
        """The file that comes of it, under the name that is suggested."""
        with self.page.expect_download() as coming:
            press.click()
        path = folder / coming.value.suggested_filename
        coming.value.save_as(path)
        return path

    def pick(self, place: int, token: str, panel: int = 0) -> None:
        """Opens the alternatives to an output token, and chooses one."""
        self.panel(panel).locator(".tokens button").nth(place).click()
        names = self.panel(panel).locator("[role=option] bdi")
        names.nth(names.all_inner_texts().index(token)).click()
        self.settle()


@pytest.fixture
def new_window(browser: Browser, address: str, expect: Any) -> Iterator[Callable[..., Window]]:
    """Windows, with options of a browser's context. When the test ends, none may have had anything to complain of."""
    problems: list[str] = []
    with ExitStack() as stack:

        def make(to: str = address, **options: Any) -> Window:
            settings = {"viewport": {"width": 1200, "height": 1000}, "reduced_motion": "reduce", **options}
            context = browser.new_context(**settings)
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE)
            window = Window(context.new_page(), to, expect)
            note_problems(context, window, problems)
            return window

        yield make
    assert problems == []


def note_problems(context: BrowserContext, window: Window, problems: list[str]) -> None:
    """Notes errors of the page's scripts, violations of its policy, requests to anybody else, and dialogs."""

    def hear(message: ConsoleMessage) -> None:
        is_provoked = "Failed to load resource" in message.text and any(
            each in message.text for each in window.provoked
        )
        if message.type in ("error", "warning") and not is_provoked:
            problems.append(message.text)

    context.on("console", hear)
    context.on("weberror", lambda error: problems.append(str(error.error)))
    context.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
    ours = (window.address, "file:", "data:", "blob:", "about:")
    context.on("request", lambda request: request.url.startswith(ours) or problems.append(request.url))


@pytest.fixture
def window(new_window: Callable[..., Window]) -> Window:
    return new_window()
