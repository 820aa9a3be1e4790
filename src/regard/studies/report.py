"""The report of a study: a self-contained HTML page, tables in Markdown and CSV, and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from regard import files
from regard.errors import UserError
from regard.evaluation.bleu import sentence_chrf
from regard.inference.translation import mean_attention
from regard.inference.translator import Translator
from regard.plotting import attention_map, figures
from regard.reports.report_page import ComparedSentence, Picture, ReportPage, ReportSection, SystemOutput, render_report
from regard.runs import Run
from regard.search import SearchOptions
from regard.studies import export, markdown, plots, tables
from regard.studies.results import StudyResults
from regard.studies.run_results import Result

PAGE, PICTURES = "index.html", "pictures"
MAX_SYSTEMS = 12
MAX_LENGTH = 40  # tokens: the map of a longer sentence is not legible in a column
SENTENCES = 3
MAX_CANDIDATES = 3_000  # sentences, to choose from


def write_report(results: StudyResults, out: Path) -> None:
    """Write all files. Each is written atomically, and numbers come first, in case that a figure fails.

    Args:
        results: The results of the study.
        out: An existing folder.
    """
    texts = {
        "report.md": markdown_report(results),
        "runs.csv": export.runs_csv(results),
        "summary.csv": export.summary_csv(results),
        "results.json": export.dump_json(results),
    }
    for name, text in texts.items():
        files.write_atomic(out / name, text.encode("utf-8", "backslashreplace"))
    built = build_page(results)
    write_pictures([b for section in built.sections for b in section.blocks if isinstance(b, Picture)], out / PICTURES)
    files.write_atomic(out / PAGE, render_report(built))


def write_pictures(pictures: Sequence[Picture], folder: Path) -> None:
    """Write figures as files, for slides, and remove those of an earlier report.

    Args:
        pictures: The figures of the report.
        folder: Where to write them.
    """
    slugs = [re.sub(r"[^a-z0-9]+", "-", picture.alt.lower()).strip("-")[:60] for picture in pictures]
    names = [f"{number:02d}-{slug}.png" for number, slug in enumerate(slugs, start=1)]
    for old in folder.glob("[0-9][0-9]-*.png"):
        if old.name not in names:
            old.unlink()
    for name, picture in zip(names, pictures, strict=True):
        figures.save_figure(picture.figure, folder / name)


def markdown_report(results: StudyResults) -> str:
    """The report without figures, in Markdown.

    Args:
        results: The results of the study.
    """
    parts = [
        markdown.heading(results.study.name),
        markdown.paragraph(results.study.plan.question),
        *(markdown.paragraph(f"{name}: {fact}") for name, fact in study_facts(results).items()),
    ]
    for table in (*tables.all_tables(results), tables.run_table(results)):
        parts += [markdown.heading(table.caption, 2), markdown.table(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def study_facts(results: StudyResults) -> dict[str, str]:
    """The lines at the head of the report.

    Args:
        results: The results of the study.
    """
    study = results.study
    known = {
        "experiment": study.plan.experiment,
        "runs": f"{results.finished} of {results.wanted} finished"
        + ("" if results.finished == results.wanted else ": this report covers these alone"),
        "seeds": f"{study.plan.seeds}",
    }
    shown = [cell.results[0] for cell in results.cells if cell.results]
    known["test"] = " or ".join(dict.fromkeys(f"{len(result.outputs):,} sentences" for result in shown))
    signatures = {str(result.evaluation.get(f"{results.main_metric.name}_signature", "")) for result in shown}
    if any(signatures):
        known["signature"] = "; ".join(sorted(signatures))
    if study.baseline:
        known["baseline"] = ", ".join(f"{axis}: {label}" for axis, label in study.baseline.items())
    for job in results.failures:
        known[f"failed: {job.label}, seed {job.seed}"] = job.error
    return known


def expectation_texts(results: StudyResults) -> Iterator[str]:
    """Each expected order with its reason.

    Args:
        results: The results of the study.
    """
    for expectation in results.study.plan.expect:
        where = ", ".join(f"{axis}: {label}" for axis, label in expectation.where.items())
        yield f"{' < '.join(expectation.order)}{f' ({where})' if where else ''}. {expectation.reason}".strip()


def build_page(results: StudyResults) -> ReportPage:
    """The content of the HTML page.

    Args:
        results: The results of the study.
    """
    warning = [BOOTSTRAP_WARNING] if results.study.plan.method == "bootstrap" else []
    expected = tables.expectation_table(results)
    sections = [
        ReportSection("Result", (*HOW_TO_READ, *warning), (*tables.score_tables(results), *plots.score_plots(results))),
        ReportSection("Expected and found", tuple(expectation_texts(results)), (expected,) if expected else ()),
        ReportSection("Along an axis", (), tuple(plots.trend_plots(results))),
        ReportSection("Learning curves", (), tuple(plots.learning_curve_plots(results))),
        ReportSection("Score against source length", (), tuple(plots.length_plots(results))),
        ReportSection("The same sentences", (HOW_CHOSEN,), tuple(compared_sentences(results))),
        ReportSection("Every run", (), (tables.run_table(results),)),
    ]
    return ReportPage(
        results.study.name,
        results.study.plan.question,
        study_facts(results),
        tuple(s for s in sections if s.blocks),
    )


HOW_TO_READ = (
    "Mean, variance, standard deviation and 95 % confidence interval are over seeds: they show the randomness of "
    "training. A difference is significant if both tests find it: p, seeds, is Welch's t-test over the runs, or the "
    "paired t-test if the same runs are evaluated in two ways; p, sentences, is a paired test over the sentences of "
    "the test set, with these models. Both are corrected for the number of comparisons by Holm's method, and both must "
    "be below 0.05. A metric without per-sentence counts has the first test alone. With fewer than three runs of a "
    "condition, or if no score varies over seeds, there is no test over seeds: its column has the reason, and it is "
    "unknown whether the difference is significant.",
)
BOOTSTRAP_WARNING = (
    "The p-values of the paired bootstrap are one-sided: of pairs of equally good systems, 10 % to 13 % get one below "
    "0.05. Approximate randomization does not have this bias."
)
HOW_CHOSEN = (
    "From each third of the test set, by length: the sentence on which the models differ most. All have one seed; "
    f"of more than {MAX_SYSTEMS} models the first are shown."
)


def compared_sentences(results: StudyResults) -> Iterator[ComparedSentence]:
    """The same sentences side by side, each with the output and the attention of every model.

    Args:
        results: The results of the study.
    """
    shown = comparable_results(results)
    if not shown:
        return
    first = shown[0][1]
    translators = {result.run: _load_translator(results, result.run) for _, result in shown}
    for index in most_different_sentences([result for _, result in shown]):
        outputs = tuple(_system_output(label, result, index, translators[result.run]) for label, result in shown)
        yield ComparedSentence(f"Sentence {index + 1}", first.sources[index], first.targets[index][0], outputs)


def comparable_results(study_results: StudyResults) -> list[tuple[str, Result]]:
    """One result for each model, with its label: of the lowest seed that most have, on the same sentences.

    Args:
        study_results: The results of the study.
    """
    models = {cell.condition.run_name(1): cell for cell in reversed(study_results.cells) if cell.results}
    cells = list(reversed(models.values()))
    seeds = [result.seed for cell in cells for result in cell.results]
    seed = max(sorted(set(seeds)), key=seeds.count, default=0)
    name = study_results.study.training_label
    results = [(name(cell.condition), result) for cell in cells for result in cell.results if result.seed == seed]
    return [(label, result) for label, result in results if result.sources == results[0][1].sources][:MAX_SYSTEMS]


def _load_translator(study_results: StudyResults, run: Path) -> Translator | UserError:
    """The model of a run, or the error if it is damaged."""
    try:
        return Translator(study_results.runs.get(run) or Run(run), device="cpu")  # three sentences
    except UserError as error:
        return error


def most_different_sentences(results: Sequence[Result]) -> list[int]:
    """The indices of the sentences on which results differ most, one from each third of the lengths.

    Args:
        results: Of the same sentences.
    """
    lengths, targets = results[0].lengths, results[0].targets
    indices = [index for index, length in enumerate(lengths) if 0 < length <= MAX_LENGTH]
    indices = indices[:: 1 + len(indices) // MAX_CANDIDATES]
    indices.sort(key=lambda index: lengths[index])
    cuts = [number * len(indices) // SENTENCES for number in range(SENTENCES + 1)]
    thirds = [indices[begin:end] for begin, end in pairwise(cuts)]

    def spread(index: int) -> float:
        scores = [sentence_chrf(result.outputs[index], targets[index]) for result in results]
        return max(scores) - min(scores)

    return [max(third, key=spread) for third in thirds if third]


def _system_output(label: str, result: Result, index: int, translator: Translator | UserError) -> SystemOutput:
    output, correct = result.outputs[index], result.outputs[index] in result.targets[index]
    if isinstance(translator, UserError):
        return SystemOutput(label, output, correct, None, f"no map: {translator}")
    search = SearchOptions(beam=result.evaluation["beam"], length_penalty=result.evaluation["length_penalty"])
    (translation,) = translator.translate([result.sources[index]], search)
    weights = mean_attention(translation.attention)
    if not weights.any():
        return SystemOutput(label, output, correct, None, "no attention")
    if translation.text != output:
        return SystemOutput(label, output, correct, None, "no map: this model now has another output")
    figure = attention_map.draw_attention_map(
        weights,
        translation.source_tokens,
        translation.tokens,
        starts=translation.word_starts,
        source_starts=translation.source_word_starts,
    )
    return SystemOutput(label, output, correct, figures.render_figure(figure, ".svg"))
