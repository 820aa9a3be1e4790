"""The report of a study: a page with its pictures inside, tables in Markdown and CSV, and all of it in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from regard import files
from regard.evaluation.bleu import sentence_chrf
from regard.inspection import attention_map, figures
from regard.inspection.study_page import Attempt, Page, Picture, Section, Sentence, render
from regard.runs import Run
from regard.search import Search
from regard.studies import drawing, tables
from regard.studies.results import Findings, Result
from regard.translation import mean_map
from regard.translator import Translator

PAGE, PICTURES = "index.html", "pictures"
MOST_ATTEMPTS = 12
LONGEST_SHOWN = 40  # tokens: the map of a longer sentence could not be read in a column
SENTENCES = 3


def write_report(findings: Findings, out: Path) -> None:
    """All of it; each file appears whole, the page last."""
    built = page(findings)
    for picture in (block for section in built.sections for block in section.blocks if isinstance(block, Picture)):
        figures.save(
            picture.figure, out / PICTURES / f"{re.sub(r'[^a-z0-9]+', '-', picture.alt.lower()).strip('-')}.png"
        )
    contents = {
        "report.md": markdown(findings).encode(),
        "runs.csv": tables.runs_csv(findings).encode(),
        "summary.csv": tables.summary_csv(findings).encode(),
        "results.json": tables.dump_json(findings).encode(),
        PAGE: render(built),
    }
    for name, content in contents.items():
        files.write(out / name, content)


def markdown(findings: Findings) -> str:
    parts = [
        f"# {findings.study.name}",
        findings.study.plan.question,
        *(f"{name}: {fact}" for name, fact in facts(findings).items()),
    ]
    for table in (*tables.all_tables(findings), tables.run_table(findings)):
        parts += [f"## {table.caption}", tables.to_markdown(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def facts(findings: Findings) -> dict[str, str]:
    study = findings.study
    known = {
        "experiment": study.plan.experiment,
        "runs": f"{findings.finished} of {findings.wanted} finished"
        + ("" if findings.finished == findings.wanted else ": what follows is about these alone"),
        "seeds": f"{study.plan.seeds}",
    }
    first = next((result for cell in findings.cells for result in cell.results), None)
    if first:
        known["test"] = f"{len(first.outputs):,} sentences"
        if signature := first.evaluation.get(f"{findings.measure}_signature"):
            known["signature"] = str(signature)
    if study.baseline:
        known["baseline"] = ", ".join(f"{axis}: {label}" for axis, label in study.baseline.items())
    for job in findings.failures:
        known[f"failed: {job.label}, seed {job.seed}"] = job.error
    return known


def page(findings: Findings) -> Page:
    sections = [
        Section("Result", HOW_TO_READ, (*tables.all_tables(findings), *drawing.scores(findings))),
        Section("Along an axis", (), tuple(drawing.trends(findings))),
        Section("Learning curves", (), tuple(drawing.curves(findings))),
        Section("Score against source length", (), tuple(drawing.lengths(findings))),
        Section("The same sentences", (HOW_CHOSEN,), tuple(sentences(findings))),
        Section("Every run", (), (tables.run_table(findings),)),
    ]
    return Page(
        findings.study.name, findings.study.plan.question, facts(findings), tuple(s for s in sections if s.blocks)
    )


HOW_TO_READ = (
    "Mean, variance, standard deviation and 95 % interval are over seeds: they tell of the chance in training. "
    "A difference is sure if it is larger than chance would make it in both ways: p, seeds is Welch's test over the "
    "runs; p, sentences a paired test over the sentences of the test set, with these models. Both are corrected for "
    "the number of comparisons by Holm's method; sure means both below 0.05.",
)
HOW_CHOSEN = "Of each third of the test set, by length: the sentence on which the models of the first seed differ most."


def sentences(findings: Findings) -> Iterator[Sentence]:
    """The same sentences, side by side, each with what every model made of it and where it looked."""
    shown = _of_first_seed(findings)
    if not shown:
        return
    first = shown[0][1]
    translators = {
        result.run: Translator(Run(result.run)) for _, result in shown if (result.run / "model.safetensors").is_file()
    }
    for place in telling_places([result for _, result in shown]):
        attempts = tuple(_attempt(label, result, place, translators.get(result.run)) for label, result in shown)
        yield Sentence(f"Sentence {place + 1}", first.sources[place], first.targets[place][0], attempts)


def _of_first_seed(findings: Findings) -> list[tuple[str, Result]]:
    """Each model once, by its label, all tested on the same sentences."""
    found: dict[str, Result] = {}
    for cell in findings.cells:
        label = findings.study.training_label(cell.condition)
        if cell.results and label not in found:
            found[label] = cell.results[0]
    first = next(iter(found.values()), None)
    alike = [(label, result) for label, result in found.items() if first and result.sources == first.sources]
    return alike[:MOST_ATTEMPTS]


def telling_places(results: Sequence[Result]) -> list[int]:
    """The places of the sentences on which these results differ most, one of each third of the lengths."""
    lengths, targets = results[0].lengths, results[0].targets
    places = [place for place, length in enumerate(lengths) if 0 < length <= LONGEST_SHOWN]
    places.sort(key=lambda place: lengths[place])
    cuts = [number * len(places) // SENTENCES for number in range(SENTENCES + 1)]
    thirds = [places[begin:end] for begin, end in pairwise(cuts)]

    def spread(place: int) -> float:
        scores = [sentence_chrf(result.outputs[place], targets[place]) for result in results]
        return max(scores) - min(scores)

    return [max(third, key=spread) for third in thirds if third]


def _attempt(label: str, result: Result, place: int, translator: Translator | None) -> Attempt:
    output, targets = result.outputs[place], result.targets[place]
    picture = None
    if translator:
        manner = result.evaluation
        search = Search(beam=manner["beam"], length_penalty=manner["length_penalty"])
        (translation,) = translator.translate([result.sources[place]], search)
        weights = mean_map(translation.attention)
        if weights.any():
            figure = attention_map.draw(
                weights,
                translation.source_tokens,
                translation.tokens,
                starts=translation.starts,
                source_starts=translation.source_starts,
            )
            picture = figures.render(figure, ".svg")
    return Attempt(label, output, output in targets, picture, "" if picture else "no attention to show")
