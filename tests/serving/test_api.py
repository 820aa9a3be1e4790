"""The API: what it answers, and what it refuses with which word."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import regard
from regard.inference.translator import Translator
from regard.search import Ensemble, SearchOptions
from regard.serving import schemas
from regard.serving.batch_queue import BatchQueue
from regard.serving.jobs import Scoring, write_json

Ask = Callable[..., TestClient]


def translate(client: TestClient, *texts: str, **wanted: Any) -> Any:
    return client.post("/api/translate", json={"texts": texts, **wanted})


@pytest.fixture(scope="module")
def heads(trained_brief: Callable[..., Path]) -> Path:
    return trained_brief("model.attention.kind=multi-head", "model.attention.heads=4")


def test_answers_are_those_of_the_translator(ask: Ask, heads: Path):
    client, translator = ask(heads), regard.load(heads)
    texts = ["abc", "", "edcba", "a"]
    search = SearchOptions(beam=4, n_best=3, length_penalty=0.5)
    answer = translate(client, *texts, beam=4, n_best=3, length_penalty=0.5, attention=True, alternatives=2, tree=True)
    told = schemas.TranslateAnswer.model_validate_json(answer.content)
    assert told.run == heads.name
    for text, one, other in zip(texts, told.translations, translator.translate(texts, search), strict=True):
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


def test_only_what_is_asked_for_is_told(ask: Ask):
    (answer,) = translate(ask(), "abc").json()["translations"]
    (best,) = answer["n_best"]
    assert (answer["tree"], best["attention"], best["alternatives"]) == (None, None, None)
    assert (answer["text"], best["alignment"]) == ("abc", [[0, 0], [1, 1], [2, 2]])


def test_an_alternative_can_be_forced(ask: Ask):
    client = ask()
    (answer,) = translate(client, "abcde", alternatives=3).json()["translations"]
    second = answer["n_best"][0]["alternatives"][2][1]["token"]
    prefix = [*answer["n_best"][0]["tokens"][:2], second]
    (forced,) = translate(client, "abcde", prefix=prefix).json()["translations"]
    assert forced["n_best"][0]["tokens"][:3] == prefix
    (ended,) = translate(client, "abcde", prefix=["a", "<end>"]).json()["translations"]
    assert (ended["text"], ended["n_best"][0]["tokens"]) == ("a", ["a", "<end>"])
    (begun,) = translate(client, "abcde", prefix="ed").json()["translations"]
    assert begun["text"].startswith("ed")


def test_scores_are_those_of_the_translator(ask: Ask, trained: Path):
    pairs = [("abc", "abc"), ("abc", "cba"), ("", "")]
    wanted = {"pairs": [{"source": source, "target": target} for source, target in pairs]}
    told = schemas.ScoreAnswer.model_validate_json(ask().post("/api/score", json=wanted).content)
    for one, other in zip(told.scores, regard.load(trained).score(pairs), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
        assert one.perplexity == pytest.approx(other.perplexity, rel=1e-4)
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-5)


def test_runs_are_told_and_chosen_by_name(ask: Ask, trained: Path, heads: Path):
    client = ask(trained, heads)
    told = schemas.RunsAnswer.model_validate_json(client.get("/api/runs").content)
    assert [run.name for run in told.runs] == [trained.name, heads.name]
    assert [run.axes for run in told.runs] == [[], ["head"]]
    assert told.runs[0].description == "Copies a few letters, learned in two seconds."
    assert 1 <= len(told.runs[0].examples) <= 5
    assert told.limits.texts == 64
    for run in told.runs:
        for example in run.examples:
            assert translate(client, example, run=run.name).json()["run"] == run.name
    wrong = translate(client, "abc", run="trainde")
    assert wrong.status_code == 422
    assert wrong.json()["detail"].startswith("run: there is no 'trainde'; did you mean 'trained'? choices: trained,")


@pytest.mark.parametrize(
    ("wanted", "status", "detail"),
    [
        ({"texts": ["abc"] * 5}, 413, "texts: 5 are more than the 4 that one request may have; send several requests"),
        (
            {"texts": ["a", "a" * 11]},
            413,
            "texts[1]: 11 characters are more than the 10 of a text; cut it into sentences",
        ),
        ({"texts": ["a"], "prefix": "a" * 11}, 413, "prefix: 11 characters are more than the 10 of a text; .*"),
        ({"texts": ["a"], "prefix": ["aaaa"] * 3}, 413, "prefix: 12 characters are more than the 10 of a text; .*"),
        ({"texts": ["a"], "beam": 7}, 422, "beam: 7 is more than the 6 that are allowed here"),
        ({"texts": ["a"], "sample": True, "n_best": 7}, 422, "n_best: 7 is more than the 6 that are allowed here"),
        ({"texts": ["a", "ax"]}, 422, "texts[1]: this task was not trained on the character 'x', only on: abcde"),
        ({"texts": ["a"], "prefix": "x"}, 422, "the prefix 'x': token 1, 'x', is not among .*"),
        ({"texts": ["a"], "n_best": 2}, 422, "n-best 2: a beam of width 1 has no more than 1; .*"),
        ({"texts": ["a"], "sample": True, "tree": True}, 422, "sampling has no tree: .*"),
        ({"texts": ["a"], "temperature": 2.0}, 422, "temperature 2.0: this is about sampling, .*"),
        ({"texts": "a"}, 422, "texts: input should be a valid list"),
        ({"texts": ["a", 1]}, 422, "texts[1]: input should be a valid string"),
        ({"texts": ["a"], "beam": 0}, 422, "beam: input should be greater than or equal to 1"),
        ({"texts": ["a"], "beam": "5"}, 422, "beam: input should be a valid integer"),
        (
            {"texts": ["a"], "bema": 5},
            422,
            "bema: there is no such field; did you mean 'beam'\\? choices: texts, run, .*",
        ),
        ({"texts": ["a"], "prefix": 5}, 422, "prefix: should be a text, or a list of tokens"),
        ({"texts": ["a"], "prefix": ["a", 5]}, 422, "prefix: should be a text, or a list of tokens"),
        ({}, 422, "texts: field required"),
        ([], 422, "a JSON object is needed, with the header 'Content-Type: application/json'; /docs describes it"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, (dict, list)) else None,
)
def test_what_is_too_much_or_wrong_is_refused_with_a_reason(ask: Ask, wanted: Any, status: int, detail: str):
    answer = ask(texts=4, characters=10, beam=6).post("/api/translate", json=wanted)
    assert answer.status_code == status
    told = answer.json()["detail"]
    assert told == detail or re.fullmatch(detail, told), told
    schemas.ErrorSchema.model_validate(answer.json())


@pytest.mark.parametrize("name", ["source", "target"])
def test_pairs_have_the_same_limits(ask: Ask, name: str):
    client = ask(texts=4, characters=10)
    pair = {"source": "a", "target": "a"}
    answer = client.post("/api/score", json={"pairs": [pair, pair | {name: "a" * 11}]})
    assert answer.status_code == 413
    assert answer.json()["detail"].startswith(f"pairs[1].{name}: 11 characters are more than")
    assert client.post("/api/score", json={"pairs": [pair] * 5}).status_code == 413
    answer = client.post("/api/score", json={"pairs": [pair, pair | {name: "x"}]})
    assert (answer.status_code, answer.json()["detail"][:10]) == (422, "pairs[1]: ")


def test_what_would_take_too_much_memory_is_refused(ask: Ask):
    client = ask(memory=0.6)
    answer = translate(client, "abcde", beam=20, n_best=20)
    assert answer.status_code == 200
    answer = translate(client, *["abcde"] * 30, beam=20, n_best=20)
    assert answer.status_code == 413
    assert re.fullmatch(
        r"this may take \d+ megabytes of memory, and 1 are allowed; ask for fewer or shorter texts, a narrower beam, "
        r"or less to be told of them",
        answer.json()["detail"],
    )
    assert translate(client, "abcde", min_length=900).status_code == 200
    for more in ({"beam": 5, "n_best": 5}, {"attention": True}, {"alternatives": 9}, {"beam": 9, "tree": True}):
        assert translate(client, "abcde", min_length=900, **more).status_code == 413, more


def test_a_wrong_item_among_many_is_told_alone_and_at_once(ask: Ask):
    client = ask()
    for field, many in (("texts", [1] * 10**5), ("prefix", [1] * 10**5), ("pairs", [1] * 10**5)):
        path = "/api/score" if field == "pairs" else "/api/translate"
        answer = client.post(path, json={"texts": [], field: many} if field != "pairs" else {field: many})
        assert answer.status_code == 422
        assert answer.json()["detail"].count(field) == 1
    answer = client.post("/api/translate", json={"texts": [], **{f"x{number}": 1 for number in range(10**4)}})
    assert answer.json()["detail"].startswith("x0: there is no such field; choices: texts, run, beam")


def test_a_dead_desk_is_no_good_health(ask: Ask, monkeypatch: pytest.MonkeyPatch):
    client = ask()
    assert client.head("/healthz").status_code == 200
    monkeypatch.setattr(BatchQueue, "is_open", False)
    assert client.get("/healthz").status_code == 503


def test_the_description_says_whether_a_token_is_needed(ask: Ask):
    for token, schemes in ((None, {}), ("s3cret", {"HTTPBearer"})):
        told = ask(token=token).get("/openapi.json").json()
        assert set(told["components"].get("securitySchemes", {})) == set(schemes)
        for path, operations in told["paths"].items():
            for operation in operations.values():
                assert bool(operation.get("security")) == (token is not None and path != "/healthz")


def test_large_answers_are_written_as_json_writes_them():
    value = {"a": [[1.5, 2e-6], [0.0]], "b": [], "c": [{"d": None, "«": "\u2028</script>"}], "e": [(1, 2)], "f": "x"}
    assert json.loads(write_json(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"texts": ["abc"]', r"this is not JSON: at character 17: .*"),
        (b"", r"a JSON object is needed, .*"),
        (b"\xff\xfe", r"this is not JSON: at character 0: .*"),
        (b'{"texts": [NaN]}', r"texts\[0\]: input should be a valid string"),
        (b'{"texts": ["\\ud800"]}', r"texts\[0\]: .*"),
        (b'{"texts": ["a"], "length_penalty": NaN}', r"length_penalty: .*"),
        (b'{"texts": ["a"], "beam": 1' + b"0" * 400 + b"}", r".*"),
        (b"[" * 100_000, r"this is not JSON that can be read"),
        (b'{"texts": ["a"], "\\ud800": 1}', r"(?!a JSON object is needed).*"),
    ],
    ids=range(9),
)
def test_a_body_that_is_not_right_is_no_reason_to_fail(ask: Ask, body: bytes, detail: str):
    answer = ask().post("/api/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert re.fullmatch(detail, answer.json()["detail"], re.S), answer.json()["detail"]


def in_parallel(count: int, ask_once: Callable[[int], Any]) -> list[Any]:
    answers: list[Any] = [None] * count

    def run(number: int) -> None:
        answers[number] = ask_once(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


class Slow:
    """Translating that waits to be let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        really = Translator.translate

        def translate(translator: Translator, *arguments: Any, **options: Any) -> Any:
            self.begun.set()
            assert self.let_go.wait(20)
            return really(translator, *arguments, **options)

        monkeypatch.setattr(Translator, "translate", translate)


def test_health_answers_while_the_model_is_at_work_and_what_waits_is_done_together(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
):
    slow, client = Slow(monkeypatch), ask()
    texts = ["abc", "de", "edcba", "a", "bb", "dcd"]

    def waiting() -> float:
        return float(re.search(r"^regard_waiting_texts (\S+)", client.get("/metrics").text, re.M)[1])

    def ask_once(number: int) -> Any:
        if number > 0:
            assert slow.begun.wait(20), "the first is under way"
        if number < len(texts):
            return translate(client, texts[number]).json()["translations"][0]["text"]
        for _ in range(2_000):
            if waiting() == len(texts) - 1:
                break
            time.sleep(0.01)
        assert client.get("/healthz").json()["status"] == "ok"
        slow.let_go.set()
        return "ok"

    assert in_parallel(len(texts) + 1, ask_once) == [*texts, "ok"]
    assert "regard_batch_texts_count 2" in client.get("/metrics").text


def test_a_full_queue_and_a_slow_model_are_told(ask: Ask, monkeypatch: pytest.MonkeyPatch):
    slow, client = Slow(monkeypatch), ask(waiting=2, texts=2, seconds=0.3)

    def ask_once(number: int) -> Any:
        if number:
            assert slow.begun.wait(20)
        return translate(client, *["abc"] * (1 if number == 0 else 2))

    answers = in_parallel(3, ask_once)
    slow.let_go.set()
    by_status = {answer.status_code: answer for answer in answers}
    assert set(by_status) == {429, 503}
    assert all(answer.headers["retry-after"] == "1" for answer in answers)
    assert "are waiting, and at most 2 may" in by_status[429].json()["detail"]
    assert by_status[503].json()["detail"] == "no answer within 0.3 seconds; ask for less, or try again later"
    assert translate(client, "abc").status_code == 200, "and then it goes on"


def test_a_decoder_without_end_is_stopped_when_its_time_is_over(ask: Ask, monkeypatch: pytest.MonkeyPatch):
    steps: list[int] = []
    really = Ensemble.step

    def step(ensemble: Ensemble, token: Any, state: Any) -> Any:
        steps.append(len(token))
        time.sleep(0.01)
        return really(ensemble, token, state)

    monkeypatch.setattr(Ensemble, "step", step)
    client = ask(seconds=0.2)
    assert translate(client, "abc", min_length=1000, beam=7).status_code == 503
    assert translate(client, "").status_code == 200
    taken = len(steps)
    monkeypatch.setattr(Ensemble, "step", really)
    assert translate(client, "abc").status_code == 200, "it does not wait for what nobody wants"
    assert 0 < taken < 1000


def test_what_nobody_has_thought_of_is_no_traceback(ask: Ask, monkeypatch: pytest.MonkeyPatch):
    def broken(self: Any, items: Any, should_stop: Any) -> Any:
        raise KeyError("a secret path")

    client = ask()
    monkeypatch.setattr(Scoring, "do", broken)
    answer = client.post("/api/score", json={"pairs": [{"source": "a", "target": "a"}]})
    assert (answer.status_code, answer.json()) == (
        500,
        {"detail": "something went wrong here; the server's log says what"},
    )

    def starved(self: Any, items: Any, should_stop: Any) -> Any:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(Scoring, "do", starved)
    answer = client.post("/api/score", json={"pairs": [{"source": "a", "target": "a"}]})
    assert (answer.status_code, answer.json()) == (503, {"detail": "not enough memory; ask for less at once"})


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
def test_other_files_are_not_served(ask: Ask, path: str):
    answer = ask().get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_the_frozen_page_is_for_putting_data_into(ask: Ask):
    answer = ask().get("/static/frozen.html")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.count("REGARD_DATA") == 1


def test_the_description_names_every_answer(ask: Ask):
    told = ask().get("/openapi.json").json()
    assert set(told["paths"]) == {"/api/translate", "/api/score", "/api/runs", "/healthz", "/metrics"}
    assert set(told["paths"]["/api/translate"]["post"]["responses"]) == {
        *("200", "400", "401", "403", "408", "413", "422", "429", "503")
    }


def test_every_setting_of_a_search_can_be_sent():
    wanted = schemas.TranslateRequest(texts=[])
    assert wanted.search() == SearchOptions()
    assert schemas.TranslateRequest(texts=[], prefix=["a", "<end>"]).search() == SearchOptions(prefix=("a", "<end>"))
