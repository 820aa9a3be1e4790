"""The report of a study: a page with its pictures inside, tables in Markdown and CSV, and all of it in JSON."""

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
from regard.studies import plots, tables
from regard.studies.results import Result, StudyResults

PAGE, PICTURES = "index.html", "pictures"
MOST_ATTEMPTS = 12
LONGEST_SHOWN = 40  # tokens: the map of a longer sentence could not be read in a column
SENTENCES = 3
MOST_LOOKED_AT = 3_000  # sentences, to choose among


def write_report(findings: StudyResults, out: Path) -> None:
    """All of it. Each file appears whole, and numbers come first, in case that something cannot be drawn."""
    texts = {
        "report.md": markdown(findings),
        "runs.csv": tables.runs_csv(findings),
        "summary.csv": tables.summary_csv(findings),
        "results.json": tables.dump_json(findings),
    }
    for name, text in texts.items():
        files.write_atomic(out / name, text.encode("utf-8", "backslashreplace"))
    built = build_page(findings)
    write_pictures([b for section in built.sections for b in section.blocks if isinstance(b, Picture)], out / PICTURES)
    files.write_atomic(out / PAGE, render_report(built))


def write_pictures(pictures: Sequence[Picture], folder: Path) -> None:
    """As files, for slides; those of an earlier report go."""
    slugs = [re.sub(r"[^a-z0-9]+", "-", picture.alt.lower()).strip("-")[:60] for picture in pictures]
    names = [f"{number:02d}-{slug}.png" for number, slug in enumerate(slugs, start=1)]
    for old in folder.glob("[0-9][0-9]-*.png"):
        if old.name not in names:
            old.unlink()
    for name, picture in zip(names, pictures, strict=True):
        figures.save_figure(picture.figure, folder / name)


def markdown(findings: StudyResults) -> str:
    parts = [
        f"# {findings.study.name}",
        findings.study.plan.question,
        *(f"{name}: {fact}" for name, fact in facts(findings).items()),
    ]
    for table in (*tables.all_tables(findings), tables.run_table(findings)):
        parts += [f"## {table.caption}", tables.to_markdown(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def facts(findings: StudyResults) -> dict[str, str]:
    study = findings.study
    known = {
        "experiment": study.plan.experiment,
        "runs": f"{findings.finished} of {findings.wanted} finished"
        + ("" if findings.finished == findings.wanted else ": what follows is about these alone"),
        "seeds": f"{study.plan.seeds}",
    }
    shown = [cell.results[0] for cell in findings.cells if cell.results]
    known["test"] = " or ".join(dict.fromkeys(f"{len(result.outputs):,} sentences" for result in shown))
    signatures = {str(result.evaluation.get(f"{findings.measure}_signature", "")) for result in shown}
    if any(signatures):
        known["signature"] = "; ".join(sorted(signatures))
    if study.baseline:
        known["baseline"] = ", ".join(f"{axis}: {label}" for axis, label in study.baseline.items())
    for job in findings.failures:
        known[f"failed: {job.label}, seed {job.seed}"] = job.error
    return known


def expectations(findings: StudyResults) -> Iterator[str]:
    """What was expected, and why."""
    for expectation in findings.study.plan.expect:
        where = ", ".join(f"{axis}: {label}" for axis, label in expectation.where.items())
        yield f"{' < '.join(expectation.order)}{f' ({where})' if where else ''}. {expectation.says}".strip()


def build_page(findings: StudyResults) -> ReportPage:
    warning = [OF_BOOTSTRAP] if findings.study.plan.method == "bootstrap" else []
    expected = tables.verdict_table(findings)
    sections = [
        ReportSection("Result", (*HOW_TO_READ, *warning), (*tables.score_tables(findings), *plots.scores(findings))),
        ReportSection("Expected and found", tuple(expectations(findings)), (expected,) if expected else ()),
        ReportSection("Along an axis", (), tuple(plots.trends(findings))),
        ReportSection("Learning curves", (), tuple(plots.curves(findings))),
        ReportSection("Score against source length", (), tuple(plots.lengths(findings))),
        ReportSection("The same sentences", (HOW_CHOSEN,), tuple(sentences(findings))),
        ReportSection("Every run", (), (tables.run_table(findings),)),
    ]
    return ReportPage(
        findings.study.name, findings.study.plan.question, facts(findings), tuple(s for s in sections if s.blocks)
    )


HOW_TO_READ = (
    "Mean, variance, standard deviation and 95 % interval are over seeds: they tell of the chance in training. A "
    "difference is sure if it is larger than chance would make it in both ways in which chance comes in: p, seeds, is "
    "Welch's test over the runs, or Student's test of pairs where the same runs are tested in two ways; p, sentences, "
    "is a paired test over the sentences of the test set, with these models. Both are corrected for the number of "
    "comparisons by Holm's method; sure means that both are below 0.05. A measure that does not go by sentences has "
    "the first alone, and with one seed nothing is sure.",
)
OF_BOOTSTRAP = (
    "The p-values of the paired bootstrap count one side only: of pairs of equally good systems, 10 % to 13 % get one "
    "below 0.05. Approximate randomisation has no such fault."
)
HOW_CHOSEN = (
    "Of each third of the test set, by length: the sentence on which the models differ most. All are of one seed; "
    f"of more than {MOST_ATTEMPTS} models the first are shown."
)


def sentences(findings: StudyResults) -> Iterator[ComparedSentence]:
    """The same sentences, side by side, each with what every model made of it and where it looked."""
    shown = comparable(findings)
    if not shown:
        return
    first = shown[0][1]
    translators = {result.run: _translator(result.run) for _, result in shown}
    for place in telling_places([result for _, result in shown]):
        attempts = tuple(_attempt(label, result, place, translators[result.run]) for label, result in shown)
        yield ComparedSentence(f"Sentence {place + 1}", first.sources[place], first.targets[place][0], attempts)


def comparable(findings: StudyResults) -> list[tuple[str, Result]]:
    """Each model once, with its label: those of the least seed that most have, tested on the same sentences."""
    models = {cell.condition.run_name(1): cell for cell in reversed(findings.cells) if cell.results}
    cells = list(reversed(models.values()))
    seeds = [result.seed for cell in cells for result in cell.results]
    seed = max(sorted(set(seeds)), key=seeds.count, default=0)
    name = findings.study.training_label
    results = [(name(cell.condition), result) for cell in cells for result in cell.results if result.seed == seed]
    return [(label, result) for label, result in results if result.sources == results[0][1].sources][:MOST_ATTEMPTS]


def _translator(run: Path) -> Translator | UserError:
    """The model of a run or, if it is damaged, what is wrong with it."""
    try:
        return Translator(Run(run))
    except UserError as error:
        return error


def telling_places(results: Sequence[Result]) -> list[int]:
    """The places of the sentences on which these results differ most, one of each third of the lengths."""
    lengths, targets = results[0].lengths, results[0].targets
    places = [place for place, length in enumerate(lengths) if 0 < length <= LONGEST_SHOWN]
    places = places[:: 1 + len(places) // MOST_LOOKED_AT]
    places.sort(key=lambda place: lengths[place])
    cuts = [number * len(places) // SENTENCES for number in range(SENTENCES + 1)]
    thirds = [places[begin:end] for begin, end in pairwise(cuts)]

    def spread(place: int) -> float:
        scores = [sentence_chrf(result.outputs[place], targets[place]) for result in results]
        return max(scores) - min(scores)

    return [max(third, key=spread) for third in thirds if third]


def _attempt(label: str, result: Result, place: int, translator: Translator | UserError) -> SystemOutput:
    output, right = result.outputs[place], result.outputs[place] in result.targets[place]
    if isinstance(translator, UserError):
        return SystemOutput(label, output, right, None, f"no map: {translator}")
    manner = result.evaluation
    search = SearchOptions(beam=manner["beam"], length_penalty=manner["length_penalty"])
    (translation,) = translator.translate([result.sources[place]], search)
    weights = mean_attention(translation.attention)
    if not weights.any():
        return SystemOutput(label, output, right, None, "looks nowhere")
    if translation.text != output:
        return SystemOutput(label, output, right, None, "no map: this model now says something else")
    figure = attention_map.draw_attention_map(
        weights,
        translation.source_tokens,
        translation.tokens,
        starts=translation.starts,
        source_starts=translation.source_starts,
    )
    return SystemOutput(label, output, right, figures.render_figure(figure, ".svg"))
