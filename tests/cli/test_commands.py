"""The commands, as a user types them."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as package
from regard.cli.app import RegardCommands
from regard.config import recipes
from regard.plotting import attention_map

Regard = Callable[..., Any]
SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def refused(answer: Any, *parts: str) -> None:
    """Exit code 2, nothing but `regard: …` on stderr, no traceback."""
    assert answer.code == 2, answer
    assert answer.err
    assert all(line.startswith("regard: ") for line in answer.err.splitlines())
    assert "Traceback" not in answer.err
    for part in parts:
        assert part in answer.err


# --- help, version, recipes ------------------------------------------------------------------------------


def test_help_names_every_command(regard: Regard):
    answer = regard("--help")
    assert answer.code == 0
    text = " ".join(answer.out.replace("│", " ").split())
    for name, command in RegardCommands.lazy_commands.items():
        assert f" {name} {command.summary}" in text


@pytest.mark.parametrize("command", RegardCommands.lazy_commands)
def test_every_command_has_help(regard: Regard, command: str):
    answer = regard(command, "--help")
    assert answer.code == 0
    text = " ".join(answer.out.split())
    assert "Usage: " in text
    assert RegardCommands.lazy_commands[command].summary in text


def test_version(regard: Regard):
    assert regard("--version").out == f"regard {package.__version__}\n"


def test_recipes_are_listed_one_per_line(regard: Regard):
    answer = regard("recipes")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert [line.split()[0] for line in lines] == ["recipe", *recipes.recipe_names()]
    assert len({re.match(r"\S+ +", line).end() for line in lines}) == 1  # descriptions are aligned


def test_an_unknown_command_or_option_is_refused(regard: Regard):
    for arguments in (["trian"], ["train"], ["train", "case", "--sett", "x=1"], ["recipes", "x"]):
        answer = regard(*arguments)
        assert answer.code == 2
        assert "Traceback" not in answer.err


# --- train -----------------------------------------------------------------------------------------------


def test_train_creates_a_run_and_prints_its_result(
    regard: Regard, tiny_file: Path, brief_settings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    options = [part for setting in brief_settings for part in ("--set", setting)]
    answer = regard("train", tiny_file, *options)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("runs/tiny: done (all epochs done), 12 steps in ")  # named for the experiment
    assert "best validation loss " in answer.out
    lines = answer.err.splitlines()
    assert lines[0].endswith(" parameters, 12 steps; cpu, float32")
    assert len(lines) == 4
    for line, step in zip(lines[1:], (4, 8, 12), strict=True):
        assert line.startswith(f"step {step}/12  ")
        for part in (" steps/s  ", " left  ", "loss ", "validation ", "exact match "):
            assert part in line
    again = regard("train", tiny_file, *options)
    assert (again.code, again.out, again.err) == (0, answer.out, "")
    other = regard("train", tiny_file, *options, "--set", "training.seed=2")
    refused(other, "runs/tiny: this run was started with other settings", "training.seed = 1, not 2\n", "(--out)")


def test_progress_is_printed_between_validations(
    regard: Regard,
    tiny_file: Path,
    brief_settings: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("regard.training.progress_display.LOG_INTERVAL", 0.0)
    options = [part for setting in brief_settings for part in ("--set", setting)]
    answer = regard("train", tiny_file, *options, "--out", tmp_path / "run")
    assert answer.code == 0
    lines = [line for line in answer.err.splitlines() if line.startswith("step ")]
    assert len(lines) == 12 + 3
    assert all(" steps/s  " in line and " left  loss " in line for line in lines)


def test_mistakes_in_an_experiment_are_printed_one_per_line(regard: Regard, tmp_path: Path):
    (tmp_path / "e.yaml").write_text("data: {task: copy}\nmodel:\n  dropuot: 1\ntraining:\n  epochs: 0\n")
    answer = regard("train", tmp_path / "e.yaml", "--out", tmp_path / "run")
    refused(answer, "e.yaml, line 3: model.dropuot: unknown key; did you mean 'dropout'?")
    assert len(answer.err.splitlines()) == 2
    assert not (tmp_path / "run").exists()


def test_an_unknown_recipe_is_refused(regard: Regard):
    refused(regard("train", "cose"), "'cose' is neither a recipe nor a file; did you mean 'case'?")


def test_a_task_that_runs_out_is_explained(regard: Regard, tmp_path: Path):
    answer = regard("train", "copy", "--set", "data.alphabet=a", "--out", tmp_path / "run")
    refused(answer, "data.", "it had no new ones after")
    assert not (tmp_path / "run").exists()


# --- translate -------------------------------------------------------------------------------------------


def test_texts_are_translated_in_order(regard: Regard, trained: Path):
    assert regard("translate", trained, "abc", "", "e", "abc").out == "abc\n\ne\nabc\n"


@pytest.mark.parametrize(
    ("stdin", "out"),
    [
        (b"abc\ne\n", "abc\ne\n"),
        (b"abc\r\ne\r\n", "abc\ne\n"),
        (b"\n\nabc\n\n", "\n\nabc\n\n"),
        (b"abc", "abc\n"),
        (b"", ""),
    ],
)
def test_each_input_line_gives_an_output_line(regard: Regard, trained: Path, stdin: bytes, out: str):
    answer = regard("translate", trained, stdin=stdin)
    assert (answer.code, answer.out, answer.err) == (0, out, "")


def test_many_lines_keep_their_order(regard: Regard, trained: Path):
    lines = [first + second + third for first in "abcde" for second in "abcde" for third in "abcde"] * 9
    assert len(lines) > 1000  # more than one batch
    answer = regard("translate", trained, stdin="\n".join(lines).encode())
    assert answer.out.splitlines() == lines


@pytest.mark.parametrize(
    ("stdin", "position"),
    [
        (b"abc\na\xffb\n", "standard input, line 2: byte 2 (0xFF) is not UTF-8"),
        (b"abc\n\nabx\n", "standard input, line 3: "),
        ("abc\nä\n".encode(), "standard input, line 2: "),
        (b"abc\na\0b\n", "standard input, line 2: "),
        (b"a b\n", "standard input, line 1: "),
        (b"abc\n" + b"a" * 100_000 + b"\n", "standard input, line 2: more than 10,000 characters"),
        (b"abc\n" * 600 + b"x\n", "standard input, line 601: "),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(regard: Regard, trained: Path, stdin: bytes, position: str):
    refused(regard("translate", trained, stdin=stdin), position)


def test_an_invalid_text_is_reported_with_its_number(regard: Regard, trained: Path):
    refused(regard("translate", trained, "abc", "x"), "text 2: ", "not trained on the character 'x'")
    refused(regard("translate", trained, "a\udcff"), "text 1: character 2, '\\udcff', is not Unicode")


def test_a_text_longer_than_any_in_training_is_translated_with_a_note(regard: Regard, trained: Path):
    answer = regard("translate", trained, "abcdeabcde", "abc")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 2
    assert answer.err == "regard: note: text 1: 11 tokens, but the longest in training had 6; expect mistakes\n"


@pytest.mark.parametrize(
    "command", [["translate"], ["evaluate"], ["evaluate", "--beam", "1,2"], ["show", "--curves", "c.png"]]
)
def test_an_invalid_run_directory_is_refused_by_every_command(regard: Regard, tmp_path: Path, command: list[str]):
    name, *options = command
    refused(regard(name, tmp_path / "none", *options), f"{tmp_path}/none: there is no such run directory")
    refused(regard(name, tmp_path, *options), f"{tmp_path}: this is not a run directory")


def test_a_run_without_weights_yet_is_refused(regard: Regard, trained: Path, tmp_path: Path):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "model.safetensors").unlink()
    refused(regard("translate", run, "abc"), "model.safetensors: does not exist yet")


# --- evaluate --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "sentences"), [("train", 600), ("validation", 40), ("test", 50)])
def test_evaluate_as_json(regard: Regard, trained: Path, split: str, sentences: int):
    answer = regard("evaluate", trained, "--json", "--split", split)
    assert answer.code == 0
    result = json.loads(answer.out)
    known = {
        "run",
        "split",
        "sentences",
        "loss",
        "perplexity",
        "token_accuracy",
        "exact_match",
        "seconds",
        "seed",
        "version",
    }
    assert known <= set(result)
    assert (result["run"], result["split"], result["sentences"]) == (str(trained), split, sentences)
    assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
    assert result["exact_match"] > 0.97
    assert result["version"] == package.__version__


def test_evaluate_uses_the_test_split_by_default(regard: Regard, trained: Path):
    assert json.loads(regard("evaluate", trained, "--json").out)["split"] == "test"


def test_runs_are_printed_side_by_side(regard: Regard, trained: Path, trained_brief: Callable[..., Path]):
    without = trained_brief("model.attention.kind=none")
    answer = regard("evaluate", trained, without)
    width = len("sentences per second  ")  # the longest title
    rows = {line[:width].strip(): line[width:].split() for line in answer.out.splitlines()}
    assert rows[""] == [str(trained), str(without)]
    assert rows["sentences"] == ["50", "50"]
    assert rows["exact match"][0] == "100.0%"
    assert rows["alignment accuracy"][1] == "–"
    both = regard("evaluate", trained, without, "--json").out.splitlines()
    assert [json.loads(line)["run"] for line in both] == [str(trained), str(without)]


def test_beam_widths_are_printed_as_rows(regard: Regard, trained: Path, trained_brief: Callable[..., Path]):
    answer = regard("evaluate", trained, "--beam", "1,5,20")
    head, *rows = [re.split(r"  +", line) for line in answer.out.splitlines()]
    assert head == ["beam", "exact match", "truncated", "log-probability", "sentences per second"]
    assert [row[:3] for row in rows] == [[width, "100.0%", "0"] for width in ("1", "5", "20")]
    both = regard("evaluate", trained, trained_brief(), "--beam", "1, 2", "--length-penalty", 0.6).out.splitlines()
    assert [line.split()[:2] for line in both[1:]] == [
        [str(run), width] for run in (trained, trained_brief()) for width in "12"
    ]
    lines = regard("evaluate", trained, "--beam", "1,5", "--json", "--length-penalty", 1).out.splitlines()
    assert [(json.loads(line)["beam"], json.loads(line)["length_penalty"]) for line in lines] == [(1, 1.0), (5, 1.0)]


@pytest.mark.parametrize("widths", ["0", "1,0", "1,", "", "five", "1;5", "-1", "1.5", "9" * 5000])
def test_an_invalid_width_is_refused(regard: Regard, trained: Path, widths: str):
    answer = regard("evaluate", trained, "--beam", widths)
    refused(answer, "beam")
    assert answer.out == ""


def test_an_unknown_split_is_refused_with_the_choices(regard: Regard, trained: Path):
    answer = regard("evaluate", trained, "--split", "tset")
    assert answer.code == 2
    for part in ("tset", "train", "validation", "test"):
        assert part in answer.err
    assert "Traceback" not in answer.err


def test_an_invalid_run_is_reported_before_any_is_scored(regard: Regard, trained: Path, tmp_path: Path):
    answer = regard("evaluate", trained, tmp_path / "none", "--json")
    refused(answer, "none: there is no such run directory")
    assert answer.out == ""


# --- show ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_show_draws_attention_and_curves(regard: Regard, trained: Path, tmp_path: Path, suffix: str):
    out, curves = tmp_path / f"map{suffix}", tmp_path / "new" / f"curves{suffix.upper()}"
    answer = regard("show", trained, "abc", "--out", out, "--curves", curves)
    assert answer.code == 0, answer.err
    assert f"{out}: attention map, dot attention" in answer.out
    assert f"{curves}: learning curves" in answer.out
    assert "abc\n" in answer.out
    for path in (out, curves):
        assert path.read_bytes().startswith(SIGNATURES[suffix])


def test_the_figure_contains_the_tokens(regard: Regard, trained: Path, tmp_path: Path):
    regard("show", trained, "abd", "--out", tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    for token in (">a<", ">b<", ">d<", "&lt;end&gt;"):
        assert token in text


def test_each_head_is_drawn(regard: Regard, trained_brief: Callable[..., Path], tmp_path: Path):
    run = trained_brief("model.attention.kind=multi-head", "model.attention.heads=2")
    answer = regard("show", run, "abd", "--out", tmp_path / "map.svg")
    assert answer.code == 0, answer.err
    assert "head 2" in (tmp_path / "map.svg").read_text()


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_a_beam_is_drawn_as_a_tree(regard: Regard, trained: Path, tmp_path: Path, suffix: str):
    tree, out = tmp_path / f"tree{suffix}", tmp_path / f"map{suffix}"
    answer = regard("show", trained, "abc", "--beam", 5, "--tree", tree, "--out", out)
    assert answer.code == 0, answer.err
    assert f"{tree}: beam search tree, width 5" in answer.out
    assert tree.read_bytes().startswith(SIGNATURES[suffix])
    assert out.exists()


def test_show_prints_json(regard: Regard, trained: Path, tmp_path: Path):
    answer = regard("show", trained, "abc", "--beam", 3, "--tree", tmp_path / "tree.png", "--json")
    assert answer.code == 0, answer.err
    assert (tmp_path / "tree.png").exists()
    result = json.loads(answer.out)
    assert result["text"] == "abc"
    (best,) = result["n_best"]
    assert len(best["attention"]) == len(best["tokens"]) == 4
    assert [node["token"] for node in result["tree"] if node["rank"] == 1] == ["<end>"]
    assert {node["fate"] for node in result["tree"]} == {"kept", "finished", "pruned"}
    assert json.loads(regard("show", trained, "abc", "--json").out)["text"] == "abc"
    second = json.loads(regard("show", trained, "abc", "--beam", 3, "--rank", 2, "--json").out)
    assert [second["text"] == each["text"] for each in second["n_best"]] == [True, False]
    refused(regard("show", trained, "--json"), "a map or a tree needs a text, and --out FILE, --tree FILE or --json")


@pytest.fixture(scope="module")
def transformer(trained_brief: Callable[..., Path]) -> Path:
    return trained_brief(
        *("model.encoder.kind=self-attention", "model.decoder.kind=transformer", "model.decoder.layers=3"),
        *("model.attention.kind=multi-head", "model.attention.heads=2"),
    )


@pytest.mark.parametrize(
    ("options", "shown", "hidden"),
    [
        ([], ["layer 1 · head 1", "layer 3 · head 2"], []),
        (["--layer", 2], ["· layer 2", "head 1", "head 2"], ["layer 1", "layer 3"]),
        (["--head", 1], ["· head 1", "layer 1", "layer 3"], ["head 2"]),
        (["--layer", 2, "--head", 1, "--beam", 3], ["· layer 2 · head 1"], ["layer 1", "head 2"]),
    ],
)
def test_any_layer_and_head_can_be_drawn(
    regard: Regard, transformer: Path, tmp_path: Path, options: list[object], shown: list[str], hidden: list[str]
):
    answer = regard("show", transformer, "abd", *options, "--out", tmp_path / "map.svg")
    assert answer.code == 0, answer.err
    picture = (tmp_path / "map.svg").read_text()
    assert all(part in picture for part in shown)
    assert not any(part in picture for part in hidden)


def test_the_chosen_layer_and_head_are_those_of_the_weights(
    regard: Regard, transformer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    drawn: list[Any] = []
    draw = attention_map.draw_attention_map
    monkeypatch.setattr(
        attention_map, "draw_attention_map", lambda weights, *a, **k: (drawn.append(weights), draw(weights, *a, **k))[1]
    )
    options = ["--beam", 4, "--rank", 2, "--out", tmp_path / "map.png"]
    answer = regard("show", transformer, "abd", "--layer", 3, "--head", 2, *options)
    (translation,) = package.load(transformer).translate(["abd"], package.Search(beam=4, n_best=2))
    assert answer.out.splitlines()[0] == translation.n_best[1].text
    assert torch.allclose(drawn[0], translation.n_best[1].attention[2, 1])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--layer", 4], "layer 4: this model has layers 1 to 3"),
        (["--layer", 0], "layer 0: this model has layers 1 to 3"),
        (["--head", 3], "head 3: this model has heads 1 to 2"),
        (["--rank", 2], "--rank 2: a beam of width 1 has hypotheses of rank 1 to 1"),
        (["--rank", 0], "--rank 0: a beam of width 1"),
        (["--beam", 0], "beam 0"),
    ],
)
def test_a_missing_layer_head_or_rank_is_refused(
    regard: Regard, transformer: Path, tmp_path: Path, options: list[object], part: str
):
    refused(regard("show", transformer, "abd", *options, "--out", tmp_path / "map.png"), part)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "side"), [("encoder", "source"), ("decoder", "input")])
def test_self_attention_can_be_drawn(
    regard: Regard, transformer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, side: str
):
    drawn: list[Any] = []
    draw = attention_map.draw_attention_map
    monkeypatch.setattr(attention_map, "draw_attention_map", lambda *a, **k: (drawn.append((a, k)), draw(*a, **k))[1])
    path = tmp_path / "map.svg"
    options = ["--attention", name, "--head", 3, "--beam", 4, "--rank", 2, "--out", path]
    answer = regard("show", transformer, "abd", *options)
    assert (answer.code, answer.out.splitlines()[1]) == (0, f"{path}: attention map, {name} self-attention")
    (best,) = package.load(transformer).translate(["abd"], package.Search(beam=4, n_best=2), self_attention=True)
    attention = getattr(best.n_best[1], f"{name}_attention")
    (((weights, columns, rows), options),) = drawn
    assert torch.allclose(weights, attention.weights[:, 2], atol=1e-6)
    assert columns == attention.tokens
    assert rows == (best.source_tokens if name == "encoder" else best.n_best[1].tokens)
    assert f"· {name} self-attention · head 3" in path.read_text()
    assert options["sides"][0] == side
    assert (torch.triu(weights, 1) == 0).all() == (name == "decoder"), "a decoder does not see the future"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--attention", "encoder"], ["--attention encoder: this model has no self-attention in its encoder"]),
        (["--attention", "encoder"], ["'recurrent'", "plain-attention, recurrent-self-attention", "can show: source"]),
        (["--attention", "decoder"], ["model.decoder.kind is 'recurrent'", "kinds with self-attention: transformer;"]),
        (["--attention", "both"], ["Invalid value for '--attention'", "'both'", "'source', 'encoder', 'decoder'"]),
        (["--attention", ""], ["Invalid value for '--attention'", "'source', 'encoder', 'decoder'"]),
        (["--attention", "Encoder"], ["Invalid value for '--attention'", "'Encoder'"]),
        (["--attention", "\x1b[31m"], ["Invalid value for '--attention'"]),
    ],
)
def test_self_attention_that_a_model_does_not_have_is_refused(
    regard: Regard, trained: Path, tmp_path: Path, options: list[object], parts: list[str]
):
    answer = regard("show", trained, "abd", *options, "--out", tmp_path / "map.png")
    assert answer.code == 2
    text = " ".join(answer.err.replace("│", " ").split())
    assert all(part in text for part in parts), text
    assert "\x1b[31m" not in answer.err
    assert list(tmp_path.iterdir()) == []


def test_self_attention_is_refused_where_it_is_not_shown(regard: Regard, transformer: Path, tmp_path: Path):
    out = ["--out", tmp_path / "map.png"]
    refused(regard("show", transformer, "abd", "--attention", "encoder", "--layer", 4, *out), "layers 1 to")
    refused(regard("show", transformer, "abd", "--attention", "encoder", "--json"), "give --out FILE")
    refused(regard("translate", transformer, "--self-attention", "abd"), "--self-attention is for --json")
    assert list(tmp_path.iterdir()) == []


def test_the_json_of_show_has_self_attention(regard: Regard, transformer: Path, trained: Path):
    translation = json.loads(regard("show", transformer, "abd", "--json").out)
    assert len(translation["encoder_attention"]["weights"][0][0]) == 4
    assert translation["n_best"][0]["decoder_attention"]["tokens"][0] == "<begin>"
    assert json.loads(regard("show", trained, "abd", "--json").out)["encoder_attention"] is None


def test_an_empty_text_is_drawn_with_any_attention(regard: Regard, transformer: Path, trained: Path, tmp_path: Path):
    for run in (transformer, trained):
        assert regard("show", run, "", "--attention", "encoder", "--out", tmp_path / "map.png").code == 0


def test_a_layer_of_a_model_without_layers_is_refused(regard: Regard, trained: Path, tmp_path: Path):
    path = tmp_path / "map.png"
    refused(regard("show", trained, "abc", "--layer", 1, "--out", path), "this model's attention has no layers")
    refused(
        regard("show", trained, "abc", "--head", 1, "--tree", path),
        "select a part of the attention map: give --out FILE",
    )
    refused(regard("show", trained, "abc", "--beam", 2, "--rank", 2, "--tree", path), "give --out FILE, or --json")
    assert not path.exists()


def test_an_empty_text_is_drawn_as_an_empty_figure(regard: Regard, trained: Path, tmp_path: Path):
    assert regard("show", trained, "", "--out", tmp_path / "map.png", "--tree", tmp_path / "tree.png").code == 0
    assert (tmp_path / "map.png").exists()
    assert (tmp_path / "tree.png").exists()


@pytest.mark.parametrize("name", ["map.jpg", "map", "map.png.gz", ".png"])
def test_an_invalid_suffix_is_refused_before_loading(regard: Regard, tmp_path: Path, name: str):
    path = tmp_path / name
    refused(
        regard("show", tmp_path / "none", "abc", "--out", path), f"{path}: cannot save a figure", ".png, .svg, .pdf"
    )
    refused(regard("show", tmp_path / "none", "--curves", path), f"{path}: cannot save a figure")


def test_one_invalid_suffix_of_two_is_refused_before_drawing(regard: Regard, trained: Path, tmp_path: Path):
    refused(regard("show", trained, "abc", "--out", tmp_path / "map.jpg", "--curves", tmp_path / "curves.png"))
    assert list(tmp_path.iterdir()) == []


def test_two_figures_in_one_file_are_refused(regard: Regard, trained: Path, tmp_path: Path):
    path = tmp_path / "x.png"
    refused(regard("show", trained, "abc", "--out", path, "--tree", path), f"{path}: this file is given twice")
    assert not path.exists()


def test_nothing_to_draw_is_refused(regard: Regard, trained: Path, tmp_path: Path):
    refused(regard("show", trained), "nothing to draw: give --out FILE or --tree FILE with a text, or --curves FILE")
    refused(regard("show", trained, "abc"), "--out FILE")
    refused(regard("show", trained, "--out", tmp_path / "map.png"), "a map or a tree needs a text")


def test_an_invalid_text_writes_no_figure(regard: Regard, trained: Path, tmp_path: Path):
    refused(regard("show", trained, "xyz", "--out", tmp_path / "map.png"), "not trained on the character 'x'")
    assert list(tmp_path.iterdir()) == []


def test_notes_are_printed_with_a_figure_too(regard: Regard, trained_brief: Callable[..., Path], tmp_path: Path):
    run = trained_brief("decoding.length_factor=0", "decoding.length_extra=1")
    answer = regard("show", run, "abcdeab", "--out", tmp_path / "map.png")
    assert answer.err.splitlines() == [
        "regard: note: this text: 8 tokens, but the longest in training had 6; expect mistakes",
        "regard: note: this text: truncated after 1 tokens, the maximum length",
    ]


def test_a_model_without_attention_has_no_map(regard: Regard, trained_brief: Callable[..., Path], tmp_path: Path):
    run = trained_brief("model.attention.kind=none")
    refused(
        regard("show", run, "abc", "--out", tmp_path / "map.png"),
        "this model has no attention to draw",
        "kind is 'none'",
    )
    assert regard("show", run, "--curves", tmp_path / "curves.png").code == 0


def test_curves_before_the_first_validation_are_refused(regard: Regard, trained: Path, tmp_path: Path):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "metrics.jsonl").unlink()
    refused(regard("show", run, "--curves", tmp_path / "c.png"), "no validation has been recorded yet")


def test_a_figure_that_cannot_be_written_is_reported(regard: Regard, trained: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "map.png"
    refused(regard("show", trained, "abc", "--out", path), f"{path}: cannot write the figure")
