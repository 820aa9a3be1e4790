"""The report of `regard align`: attention compared with gold alignments, and its movement along the source.

Symbols: α weights, x source; A predicted links, S sure links, P possible links. A link is (source, target).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from regard.corpora.alignments import GoldAlignment
from regard.errors import UserError
from regard.evaluation.alignment import AlignmentCounts, teacher_forced_attention
from regard.images import source_label
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.aligned_sentences import AlignedSentence
from regard.laboratory.alignment import AttentionAlignment, measure_alignment
from regard.laboratory.attention_stats import MEASURES, named_maps
from regard.laboratory.lab_report import LabReport
from regard.laboratory.sentences import load_examples
from regard.nn.recurrent import RecurrentDecoderSection
from regard.plotting import attention_map
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.tasks import Split
from regard.text import END

MAX_TEXT = 82  # characters of a sentence in a table


def alignment_report(
    translator: Translator,
    split: Split,
    limit: int | None,
    gold: Path | None,
    sentence: int | None,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> LabReport:
    """Precision, recall and AER of attention, if gold alignments are known, and its movement along the source.

    Args:
        translator: The translator.
        split: The split of the run's data.
        limit: The maximum number of sentences; None for all.
        gold: A file of word alignments in Moses format; None for the alignments of the task, if it has any.
        sentence: The number of the sentence to draw, from 1; None for the one with the longest inversion.
        expect: Called once with the number of sentences.
        advance: Called with the number of sentences done.
    """
    pairs, examples = load_examples(translator, split, limit)
    expect(len(pairs))
    if sentence is not None and not 1 <= sentence <= len(pairs):
        raise UserError(f"sentence {sentence}: of the {split} split, sentences 1 to {len(pairs):,} are read")
    found = measure_alignment(translator, split, limit, pairs, examples, gold, advance)
    shown = found.example_sentence if sentence is None else found.sentences[sentence - 1]
    figure = AlignmentFigure.of_sentence(translator, found, shown, by_words=gold is not None)
    page = ReportPage(
        title="Attention compared with gold alignments" if found.gold else "Movement of attention along the source",
        lead="Attention of the model with teacher forcing: it reads the reference targets.",
        facts=_alignment_facts(translator, split, found),
        sections=(
            *([_accuracy_section(translator, found)] if found.gold else []),
            _movement_section(found),
            *([ReportSection("Extreme sentences", (), tables)] if (tables := _extreme_tables(found)) else []),
            ReportSection(
                f"Sentence {shown.number}", (source_label(shown.pair.source), shown.pair.target), (figure.picture(),)
            ),
        ),
    )
    return LabReport(page, _alignment_data(translator, split, found, figure))


def _alignment_facts(translator: Translator, split: Split, found: AttentionAlignment) -> dict[str, str]:
    model = translator.experiment.model
    decoder = model.decoder
    wiring = f", {decoder.wiring} the step" if isinstance(decoder, RecurrentDecoderSection) else ""
    facts = {
        "run": str(translator.runs[0].path),
        "sentences": f"{len(found.sentences):,} of the {split} split",
        "attention": f"{model.attention.label}{wiring}",
    }
    if found.gold:
        sure, unsure = (sum(len(getattr(gold, kind)) for gold in found.gold) for kind in ("sure", "unsure"))
        possible = f" and {unsure:,} possible" if unsure else ""
        facts["gold links"] = f"{sure:,} sure{possible}, from {found.gold_origin}"
    return facts


def _accuracy_section(translator: Translator, found: AttentionAlignment) -> ReportSection:
    decoder = translator.experiment.model.decoder
    queries_after_output = isinstance(decoder, RecurrentDecoderSection) and decoder.wiring == "before"
    next_step = (
        "whose query is the state that predicted the output" if queries_after_output else "whose input is the output"
    )
    text = (
        "Each output is linked to the source position with its largest weight; the target's end is excluded.",
        "An output whose largest weight is at the source's end, or whose weights are all equal, has no link.",
        "precision = |A ∩ P| / |A|, recall = |A ∩ S| / |S|, AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|).",
        "A: predicted, S: sure, P: possible links, S ⊆ P. Counts are summed over the split (micro average).",
        f"Next step: links from the row of the next step, {next_step}.",
        "Diagonal: links to the same relative position in the source; needs no model.",
        "Oracle: one gold link for each output that has any; attention predicts at most one per output.",
    )
    names = ("precision", "recall", "AER")
    rows = [(name, *_count_cells(own), *_count_cells(following)) for name, (own, following) in found.counts.items()]
    rows += [("diagonal", *_count_cells(found.diagonal), "", "", "")]
    rows += [("oracle", *_count_cells(found.oracle), "", "", "")]
    head = ("", *names, *(f"{name}, next step" for name in names))
    return ReportSection("Alignment accuracy", text, (Table(head, tuple(rows)),))


def _count_cells(counts: AlignmentCounts) -> tuple[str, str, str]:
    precision, recall, error = counts.precision, counts.recall, counts.error_rate
    return _format_finite("{:.1%}", precision), _format_finite("{:.1%}", recall), _format_finite("{:.3f}", error)


def _format_finite(form: str, value: float) -> str:
    return form.format(value).replace("%", " %") if isfinite(value) else "–"


def _movement_section(found: AttentionAlignment) -> ReportSection:
    text = (
        "Entropy of a row: −Σ_i α_ti log2 α_ti, and as a share of its maximum, log2 of the number of columns.",
        "Coverage: Σ_i min(1, Σ_t α_ti) / |x|, the part of the source that is attended to.",
        "Monotonicity: the correlation of output position and attended position; 1 is the same order.",
        "Backward: the share of steps at which the most attended position moves backward.",
        "Inversion: the longest backward distance between two outputs, times the smaller of their weights.",
        "The last three exclude ends and punctuation. All values are means over sentences.",
    )
    rows = tuple(
        (name, *(_format_finite(each.form, found.average(name, key)) for key, each in MEASURES.items()))
        for name in found.stats
    )
    head = ("", *(each.title for each in MEASURES.values()))
    return ReportSection("Movement", text, (Table(head, rows),))


def _extreme_tables(found: AttentionAlignment) -> tuple[Table, ...]:
    """The extreme sentences of each measure, on two rows each: the source with the value, then the target."""
    tables = []
    for key, each in MEASURES.items():
        rows: list[tuple[str, str, str]] = []
        for value, sentence in found.extremes(key) if each.extreme else ():
            rows.append(
                (str(sentence.number), _cut_text(source_label(sentence.pair.source)), _format_finite(each.form, value))
            )
            rows.append(("", _cut_text(sentence.pair.target), ""))
        if rows:
            tables.append(Table(("sentence", "source and target", ""), tuple(rows), caption=each.extreme))
    return tuple(tables)


def _cut_text(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


@dataclass(frozen=True)
class AlignmentFigure:
    """The attention maps of one sentence with its gold links.

    Args:
        sentence: The sentence.
        maps: The maps by name [output, source], both ends included.
        rows: The labels of the rows.
        columns: The labels of the columns.
        starts: Word boundaries, as arguments of `draw_attention_map`, if rows and columns are tokens.
        gold: The gold alignment; empty if none is known.
    """

    sentence: AlignedSentence
    maps: Mapping[str, Tensor]
    rows: Sequence[str]
    columns: Sequence[str]
    starts: Mapping[str, Any]
    gold: GoldAlignment

    @classmethod
    def of_sentence(
        cls, translator: Translator, found: AttentionAlignment, sentence: AlignedSentence, *, by_words: bool
    ) -> Self:
        """The mean over layers and heads and, if gold alignments are known, the map with the lowest AER.

        Args:
            translator: The translator.
            found: The measurement that the sentence is part of.
            sentence: The sentence to draw.
            by_words: Draw words instead of tokens.
        """
        codec, index = translator.codec, sentence.number - 1
        example = found.examples[index]
        (weights,) = teacher_forced_attention(translator.model, [example])
        maps = named_maps(weights, translator.model.decoder.weight_axes)
        main, *others = maps
        closest = sorted(others, key=lambda name: found.counts[name][0].error_rate)[:1] if found.gold else []
        maps = {name: maps[name] for name in (main, *closest)}
        gold = found.gold[index] if found.gold else GoldAlignment(frozenset())
        if by_words:
            maps = {name: sentence.unit_map(each) for name, each in maps.items()}
            return cls(sentence, maps, (*sentence.target.units, END), (*sentence.source.units, END), {}, gold)
        rows = codec.target_vocabulary.to_tokens(example.target[1:])
        columns = codec.source_tokens(sentence.pair.source)
        starts = {
            "starts": codec.tokenization.target_starts(rows),
            "source_starts": codec.tokenization.source_starts(columns),
        }
        return cls(sentence, maps, rows, columns, starts, gold)

    def picture(self) -> Picture:
        """The maps side by side, with rings at the gold links."""
        several = len(self.maps) > 1
        rings = "; rings: gold links" if self.gold.possible else ""
        figure = attention_map.draw_attention_map(
            torch.stack(list(self.maps.values())) if several else next(iter(self.maps.values())),
            self.columns,
            self.rows,
            title=f"sentence {self.sentence.number}{rings}",
            names=tuple(self.maps) if several else (),
            links=self.gold.possible,
            **self.starts,
        )
        alt = f"attention of {len(self.rows)} outputs to {len(self.columns)} source positions{rings}"
        return Picture(figure, alt, f"Rows are outputs, columns source positions{rings}.")


def _alignment_data(
    translator: Translator, split: Split, found: AttentionAlignment, figure: AlignmentFigure
) -> dict[str, Any]:
    maps = []
    for name in found.stats:
        averages = {key: _finite_or_none(found.average(name, key)) for key in MEASURES}
        both = found.counts[name] if found.gold else ()
        counts = {key: _counts_data(each) for key, each in zip(("same_step", "next_step"), both, strict=False)}
        maps.append({"map": name, **counts, **averages})
    data: dict[str, Any] = {
        "run": str(translator.runs[0].path),
        "split": split,
        "sentences": len(found.sentences),
        "gold": found.gold_origin if found.gold else None,
        "maps": maps,
    }
    if found.gold:
        data |= {"diagonal": _counts_data(found.diagonal), "oracle": _counts_data(found.oracle)}
    return data | {
        "extremes": {key: [sentence.number for _, sentence in found.extremes(key)] for key in MEASURES},
        "figure": {
            "sentence": figure.sentence.number,
            "rows": figure.rows,
            "columns": figure.columns,
            "maps": [{"map": name, "weights": each.tolist()} for name, each in figure.maps.items()],
        },
        "per_sentence": [_sentence_data(found, index) for index in range(len(found.sentences))],
    }


def _counts_data(counts: AlignmentCounts) -> dict[str, Any]:
    return {
        "links": counts.found,
        "sure": counts.sure,
        "links_sure": counts.found_sure,
        "links_possible": counts.found_possible,
        "precision": _finite_or_none(counts.precision),
        "recall": _finite_or_none(counts.recall),
        "f1": _finite_or_none(counts.f1),
        "aer": _finite_or_none(counts.error_rate),
    }


def _sentence_data(found: AttentionAlignment, index: int) -> dict[str, Any]:
    """One sentence: its units, its gold links, and for each map the predicted links (source, target) and measures."""
    sentence = found.sentences[index]
    data: dict[str, Any] = {
        "sentence": sentence.number,
        "source": sentence.pair.source,
        "target": sentence.pair.target,
        "source_units": sentence.source.units,
        "target_units": sentence.target.units,
    }
    if found.gold:
        data |= {"sure": sorted(found.gold[index].sure), "possible": sorted(found.gold[index].possible)}
    maps = []
    for name, stats in found.stats.items():
        own = stats[index]
        row: dict[str, Any] = {"map": name}
        for key, links in (("same_step", own.links), ("next_step", own.next_step_links)):
            counts = _counts_data(AlignmentCounts.between(links, found.gold[index])) if found.gold else {}
            row[key] = {"pairs": sorted(links), **counts}
        maps.append(row | {key: _finite_or_none(value) for key, value in own.values.items()})
    return data | {"maps": maps}


def _finite_or_none(value: float) -> float | None:
    """JSON has no nan."""
    return value if isfinite(value) else None
