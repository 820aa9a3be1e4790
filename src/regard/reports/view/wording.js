// Numbers and places in words: what readouts, labels and live regions say.

import { element } from "./elements.js";
import { strongest } from "./weights.js";

const TOLD_AT_ONCE = 4;

export function weightText(weight) {
  return weight > 0 && weight < 0.005 ? "< 0.01" : weight.toFixed(2);
}

export function scoreText(score) {
  return score
    .toFixed(2)
    .replace(/^-0\.00$/, "0.00")
    .replace("-", "−");
}

export function percentText(probability) {
  const percent = 100 * probability;
  if (percent > 0 && percent < 0.1) return "< 0.1%";
  return percent < 1 ? `${percent.toFixed(1)}%` : `${percent.toFixed(0)}%`;
}

/** A token in a sentence, isolated so that its direction does not turn the sentence round. */
export function quoted(label) {
  return element("bdi", { class: "quoted" }, `«${label}»`);
}

/** What lies under the pointer: a cell, a row, or a column of the map. */
export function placeInWords(source, output, weights, place) {
  if (place.output !== null && place.source !== null) {
    const weight = weights[place.output][place.source];
    return [
      quoted(output.labels[place.output]),
      " looked at ",
      quoted(source.labels[place.source]),
      `: ${weightText(weight)}`,
    ];
  }
  if (place.output !== null) {
    return [quoted(output.labels[place.output]), " looked at ", ...listed(source.labels, weights[place.output])];
  }
  const column = weights.map((row) => row[place.source]);
  return [quoted(source.labels[place.source]), " was looked at by ", ...listed(output.labels, column)];
}

function listed(labels, values) {
  const places = strongest(values, TOLD_AT_ONCE);
  if (!places.length) return ["nothing in particular"];
  return places.flatMap((place, number) => [
    number ? ", " : "",
    quoted(labels[place]),
    ` ${weightText(values[place])}`,
  ]);
}

/** A step of the search in words: what was kept, finished, truncated and pruned, with scores. */
export function stepInWords(nodes, step, steps) {
  if (step === 0) return ["Before the first step: the empty hypothesis."];
  const sentences = [`Step ${step} of ${steps}.`];
  for (const fate of ["kept", "finished", "truncated", "pruned"]) {
    const members = nodes.filter((node) => node.length === step && node.fate === fate);
    if (members.length) sentences.push(` ${fate[0].toUpperCase()}${fate.slice(1)}: `, ...named(members), ".");
  }
  return sentences;
}

function named(nodes) {
  const told = nodes.slice(0, TOLD_AT_ONCE + 1);
  const parts = told.flatMap((node, number) => [number ? ", " : "", quoted(node.label), ` ${scoreText(node.score)}`]);
  return told.length < nodes.length ? [...parts, ` and ${nodes.length - told.length} more`] : parts;
}
