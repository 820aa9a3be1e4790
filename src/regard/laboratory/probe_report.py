"""What linear probes can read from the states of encoder, bottleneck and decoder.

    sentences → states of each kind → questions, a probe for each → findings → report

The probe itself is in `probes.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Any

import torch
from torch import Tensor

from regard.data import Example
from regard.errors import UserError
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory import sentences
from regard.laboratory.formatting import format_percent
from regard.laboratory.lab_report import LabReport
from regard.laboratory.probes import (
    FEWEST_FITTED,
    FEWEST_JUDGED,
    MOST_LABELS,
    Finding,
    ProbeData,
    ProbedSentence,
    ProbeTarget,
    run_probe,
)
from regard.laboratory.states import (
    BOTTLENECK,
    DECODER,
    DECODER_INPUT,
    ENCODER,
    ENCODER_INPUT,
    describe_bottleneck,
    gather,
)
from regard.plotting.comparison import Band, draw_bands
from regard.plotting.figures import message_figure
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.tasks import Pair, Split

MOST_STATES = 20_000  # of a kind
MOST_PLACES = 40
MOST_RANGES, FEWEST_OF_A_RANGE = 9, 10  # of lengths, and the sentences of each
MOST_ROWS = 12  # in the table of places
# Which of a sentence's places are meant, given k and the sentences' lengths.
PLACES: dict[str, Callable[[int, Tensor], Tensor]] = {
    "all": lambda k, lengths: lengths >= k,
    "first": lambda k, lengths: torch.ones_like(lengths) == k,
    "middle": lambda k, lengths: (lengths + 1) // 2 == k,
}
COLUMNS = ("classes", "fitted", "judged", "accuracy", "majority", "control", "gain")
LINES = {"accuracy": "linear probe", "majority": "majority", "control": "control: shuffled labels"}
# What the table of lengths shows, and what it is called there.
FOLLOWED = {
    **{name: name for name in PLACES},
    f"{BOTTLENECK}, last token": "last",
    f"{BOTTLENECK}, prompt": "prompt",
    f"{BOTTLENECK}, length": "length itself",
    f"{ENCODER}, position i": "position i",
    f"{DECODER}, step t": "step t",
}

LEAD = (
    "A linear probe guesses a label from a state x: softmax(W x + b). What it guesses rightly for sentences that it "
    "was not fitted on can be read from the state as it is, without further computing."
)
EXPLANATION = (
    "Input: an embedding with its position, as the encoder or the decoder reads it. What can be read there already, "
    "the states need not have computed.",
    "Majority: the accuracy of always saying the label that is most frequent in fitting. Control: that of an equal "
    "probe whose labels were shuffled, in fitting and in judging. Gain: accuracy minus the larger of the two. "
    "Large weights are penalised, how much is chosen on a fifth of the states to fit on.",
)
BY_PLACE = (
    "Judged on n sentences, an accuracy is uncertain by up to 100/√n points in either direction. "
    f"There are probes up to k = {MOST_PLACES}, if {FEWEST_FITTED} sentences of the train split are so long, and "
    f"{FEWEST_JUDGED} of the test split."
)
BY_LENGTH = (
    "The accuracy of the same probes on sentences of some lengths. From the bottleneck: every k-th {0}, then the "
    "first, the middle and the last one, the prompt, and the length itself. From the encoder: position. From the "
    "decoder: step."
)


def questions(last: int) -> Iterator[ProbeTarget]:
    """All that probes are asked, `last` being the last k."""
    yield ProbeTarget(ENCODER_INPUT, "position i", lambda sentence, place: place)
    yield ProbeTarget(ENCODER, "position i", lambda sentence, place: place)
    yield ProbeTarget(ENCODER, "token x_i", lambda sentence, place: sentence.tokens[place - 1])
    yield ProbeTarget(ENCODER, "prompt", lambda sentence, place: sentence.prompt)
    yield ProbeTarget(BOTTLENECK, "prompt", lambda sentence, place: sentence.prompt)
    yield ProbeTarget(BOTTLENECK, "length", lambda sentence, place: len(sentence.content))
    yield ProbeTarget(
        BOTTLENECK, "last token", lambda sentence, place: sentence.content[-1] if sentence.content else None
    )
    yield ProbeTarget(DECODER_INPUT, "step t", lambda sentence, place: place)
    yield ProbeTarget(DECODER, "step t", lambda sentence, place: place)
    yield from (ProbeTarget(BOTTLENECK, f"k = {k}", token_at(k), k) for k in range(1, last + 1))


def token_at(k: int) -> Callable[[ProbedSentence, int], str | None]:
    """The k-th token of a sentence's content, if it has so many."""
    return lambda sentence, place: sentence.content[k - 1] if k <= len(sentence.content) else None


def _within(bounds: tuple[int, int], lengths: Tensor) -> Tensor:
    return (lengths >= bounds[0]) & (lengths <= bounds[1])


def probe_report(
    translator: Translator,
    limit: int | None,
    seed: int,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> LabReport:
    """Fit probes on the train split and judge them on the test split, the first `limit` sentences of each."""
    fitting, judging, notes = read_material(translator, limit, seed)
    lengths = torch.tensor([len(sentence.content) for sentence in judging.sentences])
    findings, left_out = find(fitting, judging, seed, expect, advance)
    notes += [f"Left out: {', '.join(names)}; {why}." for why, names in left_out.items()]
    numbers = [_numbers(each) for each in findings]
    by_length = [of_lengths(findings, lengths, bounds) for bounds in ranges_of(lengths)]
    facts = {
        "run": str(translator.runs[0].path),
        "fitted on": f"{len(fitting.sentences):,} sentences of the train split",
        "judged on": f"{len(judging.sentences):,} others, of the test split",
        "states": f"at most {MOST_STATES:,} of a kind, drawn with seed {seed}",
        "bottleneck": describe_bottleneck(translator.experiment.model, judging.states[BOTTLENECK].vectors.shape[1]),
    }
    page = ReportPage(
        "What linear probes can read", LEAD, facts, _sections(numbers, by_length, unit_of(fitting), notes)
    )
    counts = {"fitted_sentences": len(fitting.sentences), "judged_sentences": len(judging.sentences)}
    data = {"run": facts["run"], "bottleneck": facts["bottleneck"], "seed": seed, "notes": notes}
    return LabReport(page, data | counts | {"probes": numbers, "by_length": by_length})


def find(
    fitting: ProbeData,
    judging: ProbeData,
    seed: int,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> tuple[list[Finding], dict[str, list[str]]]:
    """The answers to all questions that apply and, by the reason, what had to be left out."""
    findings: list[Finding] = []
    left_out: dict[str, list[str]] = defaultdict(list)
    longest = min(_longest(fitting, FEWEST_FITTED), _longest(judging, FEWEST_JUDGED), MOST_PLACES)
    # Not all can be asked: there is no prompt, say, in most tasks.
    asked = [q for q in questions(longest) if any(q.label(s, 1) is not None for s in fitting.sentences)]
    expect(len(asked))
    for question in asked:
        answer = run_probe(question, fitting, judging, seed)
        advance(1)
        if isinstance(answer, Finding):
            findings.append(answer)
        else:
            left_out[answer].append(f"{question.what} from the {question.kind}")
    return findings, left_out


def _longest(material: ProbeData, fewest: int) -> int:
    """The greatest length that so many sentences have, or more."""
    return sorted(len(sentence.content) for sentence in material.sentences)[-fewest]


def read_material(translator: Translator, limit: int | None, seed: int) -> tuple[ProbeData, ProbeData, list[str]]:
    """What to fit on and what to judge on, which have no source in common, and what had to be left out."""
    fitting, too_long = _readable(translator, "train", limit)
    readable, too_long_to_judge = _readable(translator, "test", limit)
    known = {example.source for _, example in fitting}
    judging = [(pair, example) for pair, example in readable if example.source not in known]
    if len(fitting) < FEWEST_FITTED or len(judging) < FEWEST_JUDGED:
        raise UserError(
            f"probes need {FEWEST_FITTED} sentences to be fitted on and {FEWEST_JUDGED} others to be judged on; "
            f"here are {len(fitting)} of the train split and {len(judging)} others of the test split"
        )
    reasons = {
        "longer than this model has positions": too_long + too_long_to_judge,
        "of the test split that probes were fitted on": len(readable) - len(judging),
    }
    notes = [f"Left out: {count:,} sentences {why}." for why, count in reasons.items() if count]
    return _material(translator, fitting, seed), _material(translator, judging, seed), notes


def _readable(translator: Translator, split: Split, limit: int | None) -> tuple[list[tuple[Pair, Example]], int]:
    """Sentences of the split, and how many of them are too long for the model."""
    both = list(zip(*sentences.read(translator, split, limit), strict=True))
    source, target = translator.model.encoder.max_length or inf, translator.model.decoder.max_length or inf
    fits = [(pair, e) for pair, e in both if len(e.source) <= source and len(e.target) - 1 <= target]
    return fits, len(both) - len(fits)


def _material(translator: Translator, some: Sequence[tuple[Pair, Example]], seed: int) -> ProbeData:
    codec, known = translator.codec, []
    for pair, example in some:
        tokens, prompt = codec.source_vocabulary.spell(example.source), codec.tokenization.prompt_token(pair.source)
        known.append(ProbedSentence(tokens, prompt, [token for token in tokens[:-1] if token != prompt]))
    return ProbeData(known, gather(translator.model, [example for _, example in some], MOST_STATES, seed))


def unit_of(material: ProbeData) -> str:
    """What the tokens of these sources are called."""
    return "character" if all(len(t) == 1 for sentence in material.sentences for t in sentence.content) else "token"


def ranges_of(lengths: Tensor) -> list[tuple[int, int]]:
    """Ranges of lengths that have enough sentences: the first and the last length of each."""
    longest = int(lengths.max())
    width = max(1, ceil(longest / MOST_RANGES))
    ranges = [(first, first + width - 1) for first in range(1, longest + 1, width)]
    return [bounds for bounds in ranges if int(_within(bounds, lengths).sum()) >= FEWEST_OF_A_RANGE]


def of_lengths(findings: Sequence[Finding], lengths: Tensor, bounds: tuple[int, int]) -> dict[str, Any]:
    """What can be read from sentences of these lengths."""
    found: dict[str, Any] = {"lengths": list(bounds), "sentences": int(_within(bounds, lengths).sum())}
    inside = [(each, _within(bounds, each.lengths)) for each in findings]
    for name, is_meant in PLACES.items():
        rights = [f.right[of & is_meant(f.question.k, f.lengths)] for f, of in inside if f.question.k]
        found |= {name: _shares(torch.cat(rights))} if rights else {}
    followed = [(each.right[of], each.question) for each, of in inside if not each.question.k]
    return found | {f"{question.kind}, {question.what}": _shares(right) for right, question in followed}


def _shares(right: Tensor) -> dict[str, float | None]:
    """How often probe, majority and control were right, given [judged, 3]; None where nothing was judged."""
    shares = right.double().mean(0).tolist() if len(right) else [None] * 3
    return dict(zip(("accuracy", "majority", "control"), shares, strict=True))


def _numbers(finding: Finding) -> dict[str, Any]:
    reading, shares = finding.reading, _shares(finding.right)
    return {
        "from": finding.question.kind,
        "what": finding.question.what,
        "k": finding.question.k,
        "classes": reading.classes,
        "has_others": reading.has_others,
        "fitted": reading.fitted,
        "judged": reading.judged,
        "penalty": reading.penalty,
        **shares,
        "gain": (shares["accuracy"] or 0) - max(shares["majority"] or 0, shares["control"] or 0),
        "accuracy_in_fitting": reading.probe.in_fitting,
        "control_in_fitting": reading.control.in_fitting,
    }


def _sections(
    findings: Sequence[Mapping[str, Any]], by_length: Sequence[Mapping[str, Any]], unit: str, notes: Sequence[str]
) -> tuple[ReportSection, ...]:
    probes, places = [each for each in findings if not each["k"]], [each for each in findings if each["k"]]
    few = places[:: max(1, ceil(len(places) / MOST_ROWS))]
    rare = f"Of more than {MOST_LABELS} labels, all but the {MOST_LABELS} most frequent in fitting are one class."
    text = (*EXPLANATION, *([rare] if any(each["has_others"] for each in findings) else []), *notes)
    return (
        ReportSection("What can be read", text, (_table(probes, ("from", "what", *COLUMNS)),)),
        ReportSection(
            f"The k-th {unit}, from the bottleneck",
            (BY_PLACE,),
            (_picture(places, by_length, unit), _table(few, ("k", *COLUMNS))),
        ),
        ReportSection("By length of the source", (BY_LENGTH.format(unit),), (_table_of_lengths(by_length),)),
    )


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    return Table(tuple(columns), tuple(tuple(_cell(row[column]) for column in columns) for row in rows))


def _table_of_lengths(by_length: Sequence[Mapping[str, Any]]) -> Table:
    """The accuracy of each probe; of those of the k-th token all together, and those of some places."""
    rows = []
    for each in by_length:
        first, last = each["lengths"]
        row = {"length": f"{first}" if first == last else f"{first}–{last}", "sentences": each["sentences"]}
        rows.append(row | {name: each[key]["accuracy"] for key, name in FOLLOWED.items() if key in each})
    return _table(rows, tuple(rows[0]) if rows else ("length", "sentences"))


def _cell(value: object) -> str:
    match value:
        case None:
            return "–"
        case float():
            return format_percent(value)
        case int():
            return f"{value:,}"
    return str(value)


def _picture(places: Sequence[Mapping[str, Any]], by_length: Sequence[Mapping[str, Any]], unit: str) -> Picture:
    alt = f"how often a linear probe reads the k-th {unit} of a source from the bottleneck, by k and by length"
    if not places:
        return Picture(message_figure(f"no {unit} could be probed", None), alt)
    bands = []
    for way, label in LINES.items():
        k, shares = tuple(each["k"] for each in places), tuple(each[way] for each in places)
        bands.append(Band(label, k, (shares,), "by place k"))
    for way, label in LINES.items() if by_length else ():
        middles, shares = zip(*((sum(each["lengths"]) / 2, each["all"][way]) for each in by_length), strict=True)
        bands.append(Band(label, middles, (shares,), "by length of the source"))
    caption = f"At the right end, by place, only the longest sources are left: these are their last {unit}s."
    return Picture(draw_bands(bands, f"{unit}s", f"k-th {unit} read rightly", percent=True), alt, caption)
