"""The API: its responses, its limits and its error messages."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import FileResponse
from starlette.testclient import TestClient

import regard
from regard.inference.translator import Translator
from regard.search import Ensemble, SearchOptions
from regard.search.options import MAX_TOKENS
from regard.serving import schemas
from regard.serving.app import PAGE
from regard.serving.batch_queue import BatchQueue
from regard.serving.jobs import ScoreJob, to_json

NewClient = Callable[..., TestClient]


def translate(client: TestClient, *texts: str, **body: Any) -> Any:
    return client.post("/api/translate", json={"texts": texts, **body})


@pytest.fixture(scope="module")
def heads(trained_brief: Callable[..., Path]) -> Path:
    return trained_brief("model.attention.kind=multi-head", "model.attention.heads=4")


def test_translations_equal_those_of_the_translator(new_client: NewClient, heads: Path):
    client, translator = new_client(heads), regard.load(heads)
    texts = ["abc", "", "edcba", "a"]
    search = SearchOptions(beam=4, n_best=3, length_penalty=0.5)
    response = translate(
        client, *texts, beam=4, n_best=3, length_penalty=0.5, attention=True, alternatives=2, tree=True
    )
    parsed = schemas.TranslateResponse.model_validate_json(response.content)
    assert parsed.run == heads.name
    for text, one, other in zip(texts, parsed.translations, translator.translate(texts, search), strict=True):
        assert (one.text, tuple(one.source_tokens)) == (other.text, other.source_tokens)
        assert [each.text for each in one.n_best] == [each.text for each in other.n_best]
        for each, own in zip(one.n_best, other.n_best, strict=True):
            assert tuple(each.tokens) == own.tokens
            assert each.log_probabilities == pytest.approx(own.log_probabilities, abs=2e-5)
            (rows,) = translator.alternatives([text], [own], 2)
            assert each.alternatives is not None
            assert [[a.token for a in row] for row in each.alternatives] == [[a.token for a in row] for row in rows]
        assert one.tree is not None
        assert [node.token for node in one.tree] == [node.token for node in translator.tree(text, search)]
        assert one.axes == (["head"] if text else [])


def test_details_are_null_unless_requested(new_client: NewClient):
    (response,) = translate(new_client(), "abc").json()["translations"]
    (best,) = response["n_best"]
    assert (response["tree"], best["attention"], best["alternatives"]) == (None, None, None)
    assert (response["text"], best["alignment"]) == ("abc", [[0, 0], [1, 1], [2, 2]])


def test_a_prefix_of_tokens_or_text_is_kept(new_client: NewClient):
    client = new_client()
    (response,) = translate(client, "abcde", alternatives=3).json()["translations"]
    second = response["n_best"][0]["alternatives"][2][1]["token"]
    prefix = [*response["n_best"][0]["tokens"][:2], second]
    (forced,) = translate(client, "abcde", prefix=prefix).json()["translations"]
    assert forced["n_best"][0]["tokens"][:3] == prefix
    (ended,) = translate(client, "abcde", prefix=["a", "<end>"]).json()["translations"]
    assert (ended["text"], ended["n_best"][0]["tokens"]) == ("a", ["a", "<end>"])
    (begun,) = translate(client, "abcde", prefix="ed").json()["translations"]
    assert begun["text"].startswith("ed")


def test_scores_equal_those_of_the_translator(new_client: NewClient, trained: Path):
    pairs = [("abc", "abc"), ("abc", "cba"), ("", "")]
    body = {"pairs": [{"source": source, "target": target} for source, target in pairs]}
    parsed = schemas.ScoreResponse.model_validate_json(new_client().post("/api/score", json=body).content)
    for one, other in zip(parsed.scores, regard.load(trained).score(pairs), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
        assert one.perplexity == pytest.approx(other.perplexity, rel=1e-4)
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-5)


def test_runs_are_listed_and_selected_by_name(new_client: NewClient, trained: Path, heads: Path):
    client = new_client(trained, heads)
    listed = schemas.RunsResponse.model_validate_json(client.get("/api/runs").content)
    assert [run.name for run in listed.runs] == [trained.name, heads.name]
    assert [run.axes for run in listed.runs] == [[], ["head"]]
    assert listed.runs[0].description == "Copies a few letters, learned in two seconds."
    assert 1 <= len(listed.runs[0].examples) <= 5
    assert listed.limits.texts == 64
    for run in listed.runs:
        for example in run.examples:
            assert translate(client, example, run=run.name).json()["run"] == run.name
    wrong = translate(client, "abc", run="trainde")
    assert wrong.status_code == 422
    assert wrong.json()["detail"].startswith(
        "run: there is no run 'trainde'; did you mean 'trained'? choices: trained,"
    )


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (
            {"texts": ["abc"] * 5},
            413,
            "texts: 5 are above this server's limit of 4 in one request; send several requests",
        ),
        (
            {"texts": ["a", "a" * 11]},
            413,
            "texts[1]: 11 characters are above this server's limit of 10; split the text into sentences",
        ),
        ({"texts": ["a"], "prefix": "a" * 11}, 413, "prefix: 11 characters are above this server's limit of 10; .*"),
        (
            {"texts": ["a"], "prefix": ["aaaa"] * 3},
            413,
            "prefix: 12 characters are above this server's limit of 10; .*",
        ),
        ({"texts": ["a"], "beam": 7}, 422, "beam: 7 is above this server's limit of 6"),
        ({"texts": ["a"], "sample": True, "n_best": 7}, 422, "n_best: 7 is above this server's limit of 6"),
        ({"texts": ["a", "ax"]}, 422, "texts[1]: this task was not trained on the character 'x', only on: abcde"),
        ({"texts": ["a"], "prefix": "x"}, 422, "the prefix 'x': token 1, 'x', is not among .*"),
        ({"texts": ["a"], "n_best": 2}, 422, "n-best 2: a beam of width 1 has no more than 1; .*"),
        ({"texts": ["a"], "sample": True, "tree": True}, 422, "sampling has no tree: .*"),
        ({"texts": ["a"], "temperature": 2.0}, 422, "temperature 2.0: applies to sampling only; add sample"),
        ({"texts": "a"}, 422, "texts: input should be a valid list"),
        ({"texts": ["a", 1]}, 422, "texts[1]: input should be a valid string"),
        ({"texts": ["a"], "beam": 0}, 422, "beam: input should be greater than or equal to 1"),
        ({"texts": ["a"], "beam": "5"}, 422, "beam: input should be a valid integer"),
        (
            {"texts": ["a"], "bema": 5},
            422,
            "bema: unknown field; did you mean 'beam'\\? choices: texts, run, .*",
        ),
        ({"texts": ["a"], "prefix": 5}, 422, "prefix: should be a string or a list of tokens"),
        ({"texts": ["a"], "prefix": ["a", 5]}, 422, "prefix: should be a string or a list of tokens"),
        ({}, 422, "texts: field required"),
        ([], 422, "the body must be a JSON object, with the header 'Content-Type: application/json'; see /docs"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, (dict, list)) else None,
)
def test_invalid_requests_are_refused_with_a_reason(new_client: NewClient, body: Any, status: int, detail: str):
    response = new_client(texts=4, characters=10, beam=6).post("/api/translate", json=body)
    assert response.status_code == status
    message = response.json()["detail"]
    assert message == detail or re.fullmatch(detail, message), message
    schemas.ErrorSchema.model_validate(response.json())


@pytest.mark.parametrize("name", ["source", "target"])
def test_pairs_have_the_limits_of_texts(new_client: NewClient, name: str):
    client = new_client(texts=4, characters=10)
    pair = {"source": "a", "target": "a"}
    response = client.post("/api/score", json={"pairs": [pair, pair | {name: "a" * 11}]})
    assert response.status_code == 413
    assert response.json()["detail"].startswith(f"pairs[1].{name}: 11 characters are above")
    assert client.post("/api/score", json={"pairs": [pair] * 5}).status_code == 413
    response = client.post("/api/score", json={"pairs": [pair, pair | {name: "x"}]})
    assert (response.status_code, response.json()["detail"][:10]) == (422, "pairs[1]: ")


def test_requests_that_need_too_much_memory_are_refused(new_client: NewClient):
    client = new_client(memory=0.6)
    response = translate(client, "abcde", beam=20, n_best=20)
    assert response.status_code == 200
    response = translate(client, *["abcde"] * 30, beam=20, n_best=20)
    assert response.status_code == 413
    assert re.fullmatch(
        r"this request may need \d+ MB of memory; the limit is 1 MB; send fewer or shorter texts, use a narrower "
        r"beam, or ask for fewer details",
        response.json()["detail"],
    )
    assert translate(client, "abcde", min_length=900).status_code == 200
    for more in ({"beam": 5, "n_best": 5}, {"attention": True}, {"alternatives": 9}, {"beam": 9, "tree": True}):
        assert translate(client, "abcde", min_length=900, **more).status_code == 413, more


def test_the_largest_limits_of_an_output_cost_neither_memory_nor_time(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch
):
    client = new_client()
    plain = translate(client, "abcde", beam=3)
    assert translate(client, "abcde", beam=3, block_ngrams=MAX_TOKENS).json() == plain.json()
    monkeypatch.setattr(Ensemble, "step", lambda *_: pytest.fail("the search was started"))
    for more in ({}, {"beam": 9}, {"sample": True, "n_best": 9}):
        response = translate(client, "abcde", min_length=MAX_TOKENS, **more)
        assert response.status_code == 413, more
        assert response.json()["detail"].startswith("this request may need ")


def test_only_the_first_of_many_invalid_items_is_reported(new_client: NewClient):
    client = new_client()
    for field, many in (("texts", [1] * 10**5), ("prefix", [1] * 10**5), ("pairs", [1] * 10**5)):
        path = "/api/score" if field == "pairs" else "/api/translate"
        response = client.post(path, json={"texts": [], field: many} if field != "pairs" else {field: many})
        assert response.status_code == 422
        assert response.json()["detail"].count(field) == 1
    response = client.post("/api/translate", json={"texts": [], **{f"x{number}": 1 for number in range(10**4)}})
    assert response.json()["detail"].startswith("x0: unknown field; choices: texts, run, beam")


def test_health_fails_when_the_inference_thread_has_ended(new_client: NewClient, monkeypatch: pytest.MonkeyPatch):
    client = new_client()
    assert client.head("/healthz").status_code == 200
    monkeypatch.setattr(BatchQueue, "is_running", False)
    assert client.get("/healthz").status_code == 503


def test_the_openapi_description_lists_the_token_scheme_only_if_needed(new_client: NewClient):
    for token, schemes in ((None, {}), ("s3cret", {"HTTPBearer"})):
        description = new_client(token=token).get("/openapi.json").json()
        assert set(description["components"].get("securitySchemes", {})) == set(schemes)
        for path, operations in description["paths"].items():
            for operation in operations.values():
                assert bool(operation.get("security")) == (token is not None and path != "/healthz")


def test_json_in_chunks_equals_json_dumps():
    value = {"a": [[1.5, 2e-6], [0.0]], "b": [], "c": [{"d": None, "«": "\u2028</script>"}], "e": [(1, 2)], "f": "x"}
    assert json.loads(to_json(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"texts": ["abc"]', r"invalid JSON at character 17: .*"),
        (b"", r"the body must be a JSON object, .*"),
        (b"\xff\xfe", r"invalid JSON at character 0: .*"),
        (b'{"texts": [NaN]}', r"texts\[0\]: input should be a valid string"),
        (b'{"texts": ["\\ud800"]}', r"texts\[0\]: .*"),
        (b'{"texts": ["a"], "length_penalty": NaN}', r"length_penalty: .*"),
        (b'{"texts": ["a"], "beam": 1' + b"0" * 400 + b"}", r".*"),
        (b"[" * 100_000, r"the body is not JSON that can be parsed"),
        (b'{"texts": ["a"], "\\ud800": 1}', r"(?!the body must be a JSON object).*"),
    ],
    ids=range(9),
)
def test_a_malformed_body_is_a_client_error(new_client: NewClient, body: bytes, detail: str):
    response = new_client().post("/api/translate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert re.fullmatch(detail, response.json()["detail"], re.S), response.json()["detail"]


def in_parallel(count: int, send_request: Callable[[int], Any]) -> list[Any]:
    """The results of `send_request(0)`, `send_request(1)`, …, each called in a thread of its own."""
    responses: list[Any] = [None] * count

    def run(number: int) -> None:
        responses[number] = send_request(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return responses


class SlowTranslator:
    """Makes `Translator.translate` wait until `release` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started, self.release = threading.Event(), threading.Event()
        original = Translator.translate

        def translate(translator: Translator, *arguments: Any, **options: Any) -> Any:
            self.started.set()
            assert self.release.wait(20)
            return original(translator, *arguments, **options)

        monkeypatch.setattr(Translator, "translate", translate)


def test_health_responds_during_inference_and_queued_requests_share_a_batch(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch
):
    slow, client = SlowTranslator(monkeypatch), new_client()
    texts = ["abc", "de", "edcba", "a", "bb", "dcd"]

    def queued() -> float:
        return float(re.search(r"^regard_queued_texts (\S+)", client.get("/metrics").text, re.M)[1])

    def send_request(number: int) -> Any:
        if number > 0:
            assert slow.started.wait(20), "the first is in progress"
        if number < len(texts):
            return translate(client, texts[number]).json()["translations"][0]["text"]
        for _ in range(2_000):
            if queued() == len(texts) - 1:
                break
            time.sleep(0.01)
        assert client.get("/healthz").json()["status"] == "ok"
        slow.release.set()
        return "ok"

    assert in_parallel(len(texts) + 1, send_request) == [*texts, "ok"]
    assert "regard_batch_texts_count 2.0" in client.get("/metrics").text


def test_a_full_queue_gives_429_and_a_slow_model_503(new_client: NewClient, monkeypatch: pytest.MonkeyPatch):
    slow, client = SlowTranslator(monkeypatch), new_client(waiting=2, texts=2, seconds=0.3)

    def send_request(number: int) -> Any:
        if number:
            assert slow.started.wait(20)
        return translate(client, *["abc"] * (1 if number == 0 else 2))

    responses = in_parallel(3, send_request)
    slow.release.set()
    by_status = {response.status_code: response for response in responses}
    assert set(by_status) == {429, 503}
    assert all(response.headers["retry-after"] == "1" for response in responses)
    assert "2 of at most 2 texts are queued" in by_status[429].json()["detail"]
    assert by_status[503].json()["detail"] == "no result within 0.3 seconds; send a smaller request, or retry later"
    assert translate(client, "abc").status_code == 200, "it then serves the next request"


def test_a_long_search_is_stopped_at_the_timeout(new_client: NewClient, monkeypatch: pytest.MonkeyPatch):
    steps: list[int] = []
    original = Ensemble.step

    def step(ensemble: Ensemble, token: Any, state: Any) -> Any:
        steps.append(len(token))
        time.sleep(0.01)
        return original(ensemble, token, state)

    monkeypatch.setattr(Ensemble, "step", step)
    client = new_client(seconds=0.2)
    assert translate(client, "abc", min_length=1000, beam=7).status_code == 503
    assert translate(client, "").status_code == 200
    taken = len(steps)
    monkeypatch.setattr(Ensemble, "step", original)
    assert translate(client, "abc").status_code == 200, "it does not wait for the abandoned search"
    assert 0 < taken < 1000


def test_an_internal_error_has_no_details_and_an_allocation_error_is_503(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch
):
    def broken(self: Any, items: Any, should_stop: Any) -> Any:
        raise KeyError("a secret path")

    client = new_client()
    monkeypatch.setattr(ScoreJob, "run_batch", broken)
    response = client.post("/api/score", json={"pairs": [{"source": "a", "target": "a"}]})
    assert (response.status_code, response.json()) == (
        500,
        {"detail": "internal server error; see the server's log"},
    )

    def out_of_memory(self: Any, items: Any, should_stop: Any) -> Any:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(ScoreJob, "run_batch", out_of_memory)
    response = client.post("/api/score", json={"pairs": [{"source": "a", "target": "a"}]})
    assert (response.status_code, response.json()) == (
        503,
        {"detail": "not enough memory; send fewer or shorter texts"},
    )


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/static/page/../api.py",
        "/static/view/..%2f..%2ferrors.py",
        "/static/page/%2e%2e/api.py",
        "/static/x",
    ],
)
def test_other_files_are_not_served(new_client: NewClient, path: str):
    response = new_client().get(path)
    assert response.status_code == 404
    assert "import" not in response.text


def test_the_template_of_saved_pages_is_plain_text_with_one_placeholder(new_client: NewClient):
    response = new_client().get("/static/frozen.html")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text.count("REGARD_DATA") == 1


def test_the_openapi_description_lists_every_path_and_status(new_client: NewClient):
    description = new_client().get("/openapi.json").json()
    assert set(description["paths"]) == {"/api/translate", "/api/score", "/api/runs", "/healthz", "/metrics"}
    assert set(description["paths"]["/api/translate"]["post"]["responses"]) == {
        *("200", "400", "401", "403", "408", "413", "422", "429", "503")
    }


def test_requests_have_every_search_option():
    body = schemas.TranslateRequest(texts=[])
    assert body.search_options() == SearchOptions()
    assert schemas.TranslateRequest(texts=[], prefix=["a", "<end>"]).search_options() == SearchOptions(
        prefix=("a", "<end>")
    )


def test_page_files_are_cached_and_not_kept_open(new_client: NewClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FileResponse, "__call__", None)  # it keeps its file open until the client has read it
    client = new_client()
    for path in ("/", "/docs"):
        assert client.get(path).headers["content-type"] == "text/html; charset=utf-8"
    response = client.get("/static/page/app.js")
    assert response.headers["content-type"].startswith("text/javascript")
    assert response.content == (PAGE / "app.js").read_bytes()
    cached = client.get("/static/page/app.js", headers={"If-None-Match": response.headers["etag"]})
    assert (cached.status_code, cached.content) == (304, b"")
