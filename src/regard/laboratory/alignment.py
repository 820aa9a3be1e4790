"""Attention held against true alignments; without them, how it moves along the source.

Symbols: α weights, x source; A links that were found, S sure links, P possible ones. A link is (source, output).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from regard.corpora.alignments import GoldAlignment, read_gold_alignments
from regard.errors import UserError
from regard.evaluation.alignment import AlignmentCounts, teacher_forced_attention
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.attention_stats import MEASURES, AlignedSentence, Alignment, look, named_maps
from regard.laboratory.lab_report import LabReport
from regard.laboratory.sentences import load_examples
from regard.plotting import attention_map
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.tasks import Pair, Split
from regard.text import END

LONGEST_TEXT = 82  # characters of a sentence in a table


def alignment_report(
    translator: Translator,
    split: Split,
    limit: int | None,
    gold: Path | None,
    sentence: int | None,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> LabReport:
    """For people and programs. `gold` has true alignments of words; `sentence`, from 1, is the one to draw."""
    pairs, examples = load_examples(translator, split, limit)
    expect(len(pairs))
    if sentence is not None and not 1 <= sentence <= len(pairs):
        raise UserError(f"sentence {sentence}: of the {split} split, sentences 1 to {len(pairs):,} are read")
    all_pairs = len(pairs) if limit is None else sum(1 for _ in translator.experiment.data.pairs(split))
    truths, origin = _truths(pairs, all_pairs, gold)
    cut = [
        AlignedSentence.cut(translator, n, pair, by_white_space=gold is not None)
        for n, pair in enumerate(pairs, start=1)
    ]
    found = Alignment(cut, examples, look(translator, cut, examples, advance), truths, origin)
    shown = found.telling if sentence is None else cut[sentence - 1]
    drawing = Drawing.of(translator, found, shown, by_words=gold is not None)
    page = ReportPage(
        title="Attention held against true alignments" if truths else "How attention moves along the source",
        lead="The model reads the true targets, and says at each step what comes next.",
        facts=_facts(translator, split, found),
        sections=(
            *([_links(translator, found)] if truths else []),
            _movement(found),
            *([ReportSection("Which sentences show it most?", (), tables)] if (tables := _extremes(found)) else []),
            ReportSection(f"Sentence {shown.number}", (shown.pair.source, shown.pair.target), (drawing.picture(),)),
        ),
    )
    return LabReport(page, _data(translator, split, found, drawing))


def _truths(pairs: Sequence[Pair], all_pairs: int, gold: Path | None) -> tuple[list[GoldAlignment], str]:
    """What belongs together in each pair, and where this is known from."""
    if gold is not None:
        counts = [(len(pair.source.split()), len(pair.target.split())) for pair in pairs]
        truths, lines = read_gold_alignments(gold, counts, more=len(pairs) < all_pairs)
        differs = f" (it has {lines:,} lines, and the split {all_pairs:,} pairs)" if lines != all_pairs else ""
        return truths, f"{gold}{differs}"
    if any(pair.alignment for pair in pairs):
        return [GoldAlignment(pair.alignment) for pair in pairs], "the task"
    return [], ""


# --- The page --------------------------------------------------------------------------------------------


def _facts(translator: Translator, split: Split, found: Alignment) -> dict[str, str]:
    model = translator.experiment.model
    wiring = "" if model.decoder.kind == "transformer" else f", {model.decoder.wiring} the step"
    facts = {
        "run": str(translator.runs[0].path),
        "sentences": f"{len(found.sentences):,} of the {split} split",
        "attention": f"{model.attention.kind}{wiring}",
    }
    if found.truths:
        sure, unsure = (sum(len(getattr(t, kind)) for t in found.truths) for kind in ("sure", "unsure"))
        possible = f" and {unsure:,} possible" if unsure else ""
        facts["true links"] = f"{sure:,} sure{possible}, from {found.origin}"
    return facts


def _links(translator: Translator, found: Alignment) -> ReportSection:
    decoder = translator.experiment.model.decoder
    asks_late = decoder.kind == "recurrent" and decoder.wiring == "before"
    later = "the state asks that has just said the output" if asks_late else "the decoder has just read the output"
    text = (
        "A link goes from an output to the place that it looks at most; the target's end does not count.",
        "What looks most at the source's end, or at all places alike, has no link.",
        "precision = |A ∩ P| / |A|, recall = |A ∩ S| / |S|, AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|).",
        "A: found, S: sure, P: possible links, S ⊆ P. Each link of the split counts alike.",
        f"Later: links from the row of the next step, at which {later}.",
        "Diagonal: links to the place as far along the source as the output is, without a look.",
        "At best: a true link for each output that has any; attention gives each output one at most.",
    )
    names = ("precision", "recall", "AER")
    rows = [(name, *_told(here), *_told(later)) for name, (here, later) in found.agreements.items()]
    rows += [("diagonal", *_told(found.diagonal), "", "", ""), ("at best", *_told(found.best), "", "", "")]
    return ReportSection(
        "Is it right?", text, (Table(("", *names, *(f"{name}, later" for name in names)), tuple(rows)),)
    )


def _told(agreement: AlignmentCounts) -> tuple[str, str, str]:
    precision, recall, error = agreement.precision, agreement.recall, agreement.error_rate
    return _cell("{:.1%}", precision), _cell("{:.1%}", recall), _cell("{:.3f}", error)


def _cell(form: str, value: float) -> str:
    return form.format(value).replace("%", " %") if isfinite(value) else "–"  # such as that of no link at all


def _movement(found: Alignment) -> ReportSection:
    text = (
        "Entropy of a row: −Σ_i α_ti log2 α_ti, and as a share of the largest possible, log2 of the places.",
        "Coverage: Σ_i min(1, Σ_t α_ti) / |x|, how much of the source is looked at.",
        "Monotonicity: the correlation of the place said and the place looked at; 1 is in order.",
        "Backward: how often, from one output to the next, the place looked at most goes back.",
        "Way back: the longest from an output to a later one, times the smaller of their weights.",
        "The last three leave out the end and the punctuation of texts. All are means over sentences.",
    )
    rows = tuple(
        (name, *(_cell(each.form, found.average(name, key)) for key, each in MEASURES.items())) for name in found.looks
    )
    head = ("", *(each.title for each in MEASURES.values()))
    return ReportSection("How does it move?", text, (Table(head, rows),))


def _extremes(found: Alignment) -> tuple[Table, ...]:
    """The sentences that show a measure most, each on two lines: its source with its value, and its target."""
    tables = []
    for key, each in MEASURES.items():
        rows: list[tuple[str, str, str]] = []
        for value, sentence in found.extremes(key) if each.told else ():
            rows.append((str(sentence.number), _short(sentence.pair.source), _cell(each.form, value)))
            rows.append(("", _short(sentence.pair.target), ""))
        if rows:
            tables.append(Table(("sentence", "source and target", ""), tuple(rows), caption=each.told))
    return tuple(tables)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


@dataclass(frozen=True)
class Drawing:
    """What is drawn of a sentence: maps by their names, and what their rows and columns stand for."""

    sentence: AlignedSentence
    maps: Mapping[str, Tensor]  # [output, source], both ends included
    rows: Sequence[str]
    columns: Sequence[str]
    starts: Mapping[str, Any]  # where rows and columns are pieces of words
    truth: GoldAlignment

    @classmethod
    def of(cls, translator: Translator, found: Alignment, sentence: AlignedSentence, *, by_words: bool) -> Self:
        """Where there are layers or heads, their mean and, if the truth is known, the one that comes closest to it."""
        codec, place = translator.codec, sentence.number - 1
        example = found.examples[place]
        (weights,) = teacher_forced_attention(translator.model, [example])
        maps = named_maps(weights, translator.model.decoder.weight_axes)
        main, *others = maps
        closest = sorted(others, key=lambda name: found.agreements[name][0].error_rate)[:1] if found.truths else []
        maps = {name: maps[name] for name in (main, *closest)}
        truth = found.truths[place] if found.truths else GoldAlignment(frozenset())
        if by_words:
            maps = {name: sentence.map_units(each) for name, each in maps.items()}
            return cls(sentence, maps, (*sentence.target.units, END), (*sentence.source.units, END), {}, truth)
        rows = codec.target_vocabulary.spell(example.target[1:])
        columns = codec.source_vocabulary.spell(example.source)
        starts = {
            "starts": codec.tokenization.target_starts(rows),
            "source_starts": codec.tokenization.source_starts(columns),
        }
        return cls(sentence, maps, rows, columns, starts, truth)

    def picture(self) -> Picture:
        several = len(self.maps) > 1
        ringed = "; rings: what belongs together" if self.truth.possible else ""
        figure = attention_map.draw_attention_map(
            torch.stack(list(self.maps.values())) if several else next(iter(self.maps.values())),
            self.columns,
            self.rows,
            title=f"sentence {self.sentence.number}{ringed}",
            names=tuple(self.maps) if several else (),
            links=self.truth.possible,
            **self.starts,
        )
        alt = f"attention of {len(self.rows)} outputs to {len(self.columns)} places of the source{ringed}"
        return Picture(figure, alt, f"Outputs are rows, sources columns, and brighter is more{ringed}.")


# --- The same for programs -------------------------------------------------------------------------------


def _data(translator: Translator, split: Split, found: Alignment, drawing: Drawing) -> dict[str, Any]:
    maps = []
    for name in found.looks:
        measured = {key: _known(found.average(name, key)) for key in MEASURES}
        here_and_later = found.agreements[name] if found.truths else ()
        compared = {key: _compared(each) for key, each in zip(("direct", "later"), here_and_later, strict=False)}
        maps.append({"map": name, **compared, **measured})
    data: dict[str, Any] = {
        "run": str(translator.runs[0].path),
        "split": split,
        "sentences": len(found.sentences),
        "truth": found.origin if found.truths else None,
        "maps": maps,
    }
    if found.truths:
        data |= {"diagonal": _compared(found.diagonal), "best": _compared(found.best)}
    return data | {
        "most": {key: [sentence.number for _, sentence in found.extremes(key)] for key in MEASURES},
        "drawn": {
            "sentence": drawing.sentence.number,
            "rows": drawing.rows,
            "columns": drawing.columns,
            "maps": [{"map": name, "weights": each.tolist()} for name, each in drawing.maps.items()],
        },
        "each": [_each(found, place) for place in range(len(found.sentences))],
    }


def _compared(agreement: AlignmentCounts) -> dict[str, Any]:
    return {
        "links": agreement.found,
        "sure": agreement.sure,
        "links_sure": agreement.found_sure,
        "links_possible": agreement.found_possible,
        "precision": _known(agreement.precision),
        "recall": _known(agreement.recall),
        "f1": _known(agreement.f1),
        "aer": _known(agreement.error_rate),
    }


def _each(found: Alignment, place: int) -> dict[str, Any]:
    """One sentence: its units, what is true of them, and for each map its links and measures."""
    sentence = found.sentences[place]
    data: dict[str, Any] = {
        "sentence": sentence.number,
        "source": sentence.pair.source,
        "target": sentence.pair.target,
        "source_units": sentence.source.units,
        "target_units": sentence.target.units,
    }
    if found.truths:
        data |= {"sure": sorted(found.truths[place].sure), "possible": sorted(found.truths[place].possible)}
    maps = []
    for name, looks in found.looks.items():
        own = looks[place]
        told: dict[str, Any] = {"map": name}
        for key, each in (("direct", own.links), ("later", own.later)):
            compared = _compared(AlignmentCounts.between(each, found.truths[place])) if found.truths else {}
            told[key] = {"pairs": sorted(each), **compared}
        maps.append(told | {key: _known(value) for key, value in own.values.items()})
    return data | {"maps": maps}


def _known(value: float) -> float | None:
    """JSON has no number for what is not known."""
    return value if isfinite(value) else None
