import io

import pytest
from rich.cells import cell_len

from regard.terminal.tables import format_table, print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_columns_are_aligned_and_lines_have_no_trailing_space():
    text = format_table(["name", "n", "share"], [["a", "1", "3.0%"], ["longer", "1,000", ""]])
    assert text.splitlines() == ["name        n  share", "a           1   3.0%", "longer  1,000"]


def test_the_caller_chooses_which_columns_are_right_aligned():
    text = format_table(["n", "name"], [["1", "a"], ["100", "b"]], right=[True, False])
    assert text.splitlines() == ["  n  name", "  1  a", "100  b"]


def test_wide_scripts_are_aligned_by_their_width():
    lines = format_table(["word", "n"], [["注意", "1"], ["attention", "2"], ["שלום", "3"]]).splitlines()
    assert {cell_len(line) for line in lines} == {12}
    assert lines[1].index("1") == lines[2].index("2") - 2  # two characters, each two columns wide


def test_a_row_in_a_file_is_one_whole_line():
    out = io.StringIO()
    print_table(["a", "b"], [["x " * 200, "y" * 300]], title="A title", file=out)
    title, _, row = out.getvalue().splitlines()
    assert title == "A title"
    assert row.endswith("y" * 300)
    assert row.startswith("x " * 200)


def test_a_file_gets_no_colors_and_a_cell_is_no_markup(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.StringIO()
    print_table(["[bold]a[/bold]"], [["[red]:smile:"]], file=out)
    assert out.getvalue() == "[bold]a[/bold]\n[red]:smile:\n"


def test_on_a_terminal_cells_fold_and_nothing_is_lost(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    print_table(["a", "b"], [["x" * 50, "y" * 30]], file=out)
    assert out.getvalue().count("x") == 50
    assert out.getvalue().count("y") == 30
    assert max(map(cell_len, out.getvalue().splitlines())) <= 40


def test_a_row_of_another_length_is_an_error():
    with pytest.raises(ValueError, match="1 cells, the table 2 columns"):
        format_table(["a", "b"], [["x"]])
