"""The result of checking a corpus as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from regard.terminal.tables import format_table

if TYPE_CHECKING:
    from regard.corpora.check_report import CorpusReport, LengthStats, LineSummary, Overlap, ProblemLines, SideReport


def format_report(report: CorpusReport) -> str:
    """The report as text for people: all sections that have content.

    Args:
        report: What `check_parallel_text` returned.
    """
    sections = [
        f"{', '.join(report.files)}: {_with_unit(report.pairs, 'pair')}{_shards(report)}",
        _length_table(report) if report.sound_pairs else "",
        _word_table(report) if report.sound_pairs else "",
        _findings(report),
        _test_section(report, report.test) if report.test else "",
        _corrected("", report.handled),
        _corrected(" the test", report.test.handled) if report.test else "",
        "\n".join(_problems(report)),
        _verdict(report),
    ]
    return "\n\n".join(section for section in sections if section)


def _shards(report: CorpusReport) -> str:
    return f" in {report.shards:,} shards; lines are counted through all of them" if report.shards > 1 else ""


def _length_table(report: CorpusReport) -> str:
    table = [["length", "mean", "median", "95 %", "99 %", "longest", "in line"]]
    for name, side in (("source", report.source), ("target", report.target)):
        table += [_length_row(f"{name}, words", side.words), _length_row(f"{name}, characters", side.characters)]
    return format_table(table[0], table[1:])


def _length_row(name: str, lengths: LengthStats) -> list[str]:
    numbers = (lengths.median, lengths.percent_95, lengths.percent_99, lengths.longest)
    return [name, f"{lengths.mean:,.1f}", *(f"{number:,}" for number in numbers), str(lengths.longest_line)]


def _word_table(report: CorpusReport) -> str:
    """Word counts of both sides; the coverage of frequent words helps to choose a vocabulary size."""
    sides = (report.source, report.target)
    sizes = sorted(set(report.source.coverage) | set(report.target.coverage))
    table = [["words", "running", "different", "once only", *(f"top {size:,}" for size in sizes)]]
    for name, side in zip(("source", "target"), sides, strict=True):
        more = "" if side.all_words_counted else "≥ "
        counts = [f"{more}{count:,}" for count in (side.different_words, side.words_occurring_once)]
        table.append([name, f"{side.running_words:,}", *counts, *(_share(side, size) for size in sizes)])
    return format_table(table[0], table[1:])


def _share(side: SideReport, size: int) -> str:
    return f"{side.coverage[size]:.1%}" if size in side.coverage else "100.0%"


def _findings(report: CorpusReport) -> str:
    ratio = f"target unusually long or short (usual: {report.usual_ratio:.2f} × source)"
    return _finding_lines(
        {
            ratio: report.unusual_ratio,
            "source equals target": report.copies,
            "duplicate pair": report.same_pairs,
            "duplicate source with another target": report.same_sources,
            **{f"beyond the limits, {limit}": lines for limit, lines in report.beyond_limits.items()},
        }
    )


def _test_section(report: CorpusReport, test: Overlap) -> str:
    more = "" if report.source.all_words_counted and report.target.all_words_counted else "at least "
    known = f"{test.known_source_words:.1%} of source words and {test.known_target_words:.1%} of target words"
    shared = _finding_lines({"pair is in training": test.same_pairs, "source is in training": test.same_sources})
    return "\n".join(
        filter(None, [f"test: {_with_unit(test.pairs, 'pair')}; {more}{known} are in the training text", shared])
    )


def _finding_lines(findings: dict[str, LineSummary]) -> str:
    """A line for each finding that occurs: how often, what, and the first line numbers."""
    found = {name: lines for name, lines in findings.items() if lines.count}
    width = max((len(f"{lines.count:,}") for lines in found.values()), default=0)
    return "\n".join(f"{lines.count:{width},}  {name}: {line_numbers(lines)}" for name, lines in found.items())


def line_numbers(lines: LineSummary) -> str:
    """Where the first pairs of a finding are.

    Args:
        lines: The finding.
    """
    places = [str(line) for line in lines.first]
    if lines.same_as:
        places = [f"{line} (as {same})" for line, same in zip(places, lines.same_as, strict=True)]
    more = ", …" if lines.count > len(places) else ""
    return f"line{'s' * (lines.count > 1)} {', '.join(places)}{more}"


def _problems(report: CorpusReport) -> Iterator[str]:
    for found in report.problems + (report.test.problems if report.test else ()):
        yield f"refused: {_problem_counts((found,))}"
        yield from (f"  {place}" for place in found.first)
        if found.count > len(found.first):
            yield "  …"


def _corrected(what: str, found: tuple[ProblemLines, ...]) -> str:
    return f"corrected while reading{what}: {_problem_counts(found)}" if found else ""


def _verdict(report: CorpusReport) -> str:
    if report.ready:
        return "Ready for training."
    advice = "correct this"
    if report.ready_with_skip:
        advice += ", or skip these pairs in training with data.skip: true"
    return f"Not ready, training would refuse it: {refusal_reasons(report)}. To do: {advice}."


def refusal_reasons(report: CorpusReport) -> str:
    """A short summary of the problems for which training would refuse the files.

    Args:
        report: What `check_parallel_text` returned.
    """
    in_test = _refusal(report.test) if report.test else ""
    return "; ".join(filter(None, [_refusal(report), f"in the test: {in_test}" if in_test else ""]))


def _refusal(checked: CorpusReport | Overlap) -> str:
    return _problem_counts(checked.problems) or ("" if checked.sound_pairs else "there is no pair of texts")


def _problem_counts(found: tuple[ProblemLines, ...]) -> str:
    return ", ".join(f"{one.kind} ({one.count:,})" for one in found)


def _with_unit(count: int, name: str) -> str:
    return f"{count:,} {name}{'s' * (count != 1)}"
