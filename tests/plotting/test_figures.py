import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from regard.errors import UserError
from regard.plotting import attention_map, figures, learning_curves

HOSTILE = "<img src=x onerror=alert(1)>"
SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def a_figure() -> Figure:
    return attention_map.draw_attention_map(
        [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], ["a", "b", "c"], ["A", "B"], title="small"
    )


def a_curve() -> Figure:
    return learning_curves.draw_learning_curves(
        [{"step": step, "epoch": step / 3, "train_loss": 1 / step} for step in (1, 2, 3)]
    )


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG", ".Svg"])
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"map{suffix}"
    figures.save_figure(a_figure(), path)
    assert path.read_bytes().startswith(SIGNATURES[suffix.lower()])
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SIGNATURES)
@pytest.mark.parametrize("make", [a_figure, a_curve])
def test_the_same_figure_gives_the_same_bytes(suffix: str, make, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = make()
    first = figures.render_figure(figure, suffix)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # a timestamp in the file would depend on this
    assert figures.render_figure(figure, suffix) == first, "saved again"
    assert figures.render_figure(make(), suffix) == first, "drawn again"


def test_png_has_two_hundred_dots_per_inch() -> None:
    blank = Figure(figsize=(3, 2))
    blank.text(0, 0, "x")
    blank.text(1, 1, "x")
    width = int.from_bytes(figures.render_figure(blank, ".png")[16:20], "big")
    assert width > 3 * 200


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("map.gif", r"map\.gif: cannot save a figure as '\.gif'; choices: \.png, \.svg, \.pdf"),
        ("map.PGN", r"map\.PGN: .*'\.pgn'; did you mean '\.png'\? choices"),
        ("map", r"map: cannot save a figure without a suffix; choices: \.png, \.svg, \.pdf"),
        (".png", r"\.png: cannot save a figure without a suffix"),
    ],
)
def test_an_unknown_suffix_is_refused_by_name(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        figures.check_suffix(name)
    with pytest.raises(UserError, match=message):
        figures.save_figure(a_figure(), tmp_path / "new" / name)
    assert not list(tmp_path.iterdir()), "not even the folder"


def test_missing_folders_are_created(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "one" / "map.svg"
    figures.save_figure(a_figure(), str(path))
    assert path.is_file()


def test_a_folder_at_the_path_is_reported_and_no_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    path.mkdir()
    with pytest.raises(UserError, match=r"map\.png: cannot write the figure: .*directory"):
        figures.save_figure(a_figure(), path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"file/map\.png: cannot write the figure"):
        figures.save_figure(a_figure(), tmp_path / "file" / "map.png")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_a_failure_leaves_the_old_file_intact(tmp_path: Path, failing: str, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "map.png"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(UserError, match=r"map\.png: cannot write the figure: Permission denied"):
        figures.save_figure(a_figure(), path)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_while_drawing_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = a_figure()
    monkeypatch.setattr(figure, "savefig", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        figures.save_figure(figure, tmp_path / "map.png")
    assert not list(tmp_path.iterdir())


def test_a_saved_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    figures.save_figure(a_figure(), tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_svg_keeps_text_as_text_and_hostile_text_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_map, "LONGEST_LABEL", 99)
    tokens = [HOSTILE, "</text><script>", "-->", "]]>&amp;", "\x00\ufffe"]
    figure = attention_map.draw_attention_map([[0.2] * 5], tokens, ["x"], title=f"{HOSTILE}\x07")
    root = ElementTree.fromstring(figures.render_figure(figure, ".svg"))
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    for expected in [HOSTILE.replace(" ", "␣"), *tokens[1:4], r"\x00\ufffe", rf"{HOSTILE}\x07"]:
        assert expected in texts
    assert not kinds & {"img", "script"}


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_a_token_without_a_glyph_raises_no_warning(suffix: str) -> None:
    figures.render_figure(
        attention_map.draw_attention_map([[0.5, 0.5]], ["漢字", "🙂"], ["\U0001f9ff"], title="ไทย"), suffix
    )


def test_no_backend_is_selected_and_pyplot_is_not_imported() -> None:
    code = (
        "import sys, regard.plotting.attention_map, regard.plotting.learning_curves, regard.plotting.figures\n"
        "import matplotlib\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.get_backend(auto_select=False) is None\n"
    )
    clean = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    subprocess.run([sys.executable, "-c", code], check=True, env=clean)
