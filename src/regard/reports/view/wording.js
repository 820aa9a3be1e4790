// Numbers, positions and search steps as text, for readouts, labels and live regions.

import { element } from "./elements.js";
import { largestIndices } from "./weights.js";

const MAX_LISTED = 4;

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

/** A token in a sentence, isolated so that its direction does not affect the sentence. */
export function quoted(label) {
  return element("bdi", { class: "quoted" }, `«${label}»`);
}

/** The weight of a cell, or the largest weights of a row or a column. */
export function describePosition(source, output, weights, position) {
  if (position.output !== null && position.source !== null) {
    const weight = weights[position.output][position.source];
    return [
      quoted(output.labels[position.output]),
      " attends to ",
      quoted(source.labels[position.source]),
      `: ${weightText(weight)}`,
    ];
  }
  if (position.output !== null) {
    const listed = listTokens(source.labels, weights[position.output]);
    return [quoted(output.labels[position.output]), " attends to ", ...listed];
  }
  const column = weights.map((row) => row[position.source]);
  return [quoted(source.labels[position.source]), " is attended to by ", ...listTokens(output.labels, column)];
}

function listTokens(labels, values) {
  const indices = largestIndices(values, MAX_LISTED);
  if (!indices.length) return ["no token in particular"];
  return indices.flatMap((index, number) => [
    number ? ", " : "",
    quoted(labels[index]),
    ` ${weightText(values[index])}`,
  ]);
}

/** The hypotheses that were kept, finished, truncated and pruned at a step, with their scores. */
export function describeStep(nodes, step, steps) {
  if (step === 0) return ["Before the first step: the empty hypothesis."];
  const sentences = [`Step ${step} of ${steps}.`];
  for (const fate of ["kept", "finished", "truncated", "pruned"]) {
    const members = nodes.filter((node) => node.length === step && node.fate === fate);
    if (members.length) sentences.push(` ${fate[0].toUpperCase()}${fate.slice(1)}: `, ...listNodes(members), ".");
  }
  return sentences;
}

function listNodes(nodes) {
  const parts = nodes
    .slice(0, MAX_LISTED + 1)
    .flatMap((node, number) => [number ? ", " : "", quoted(node.label), ` ${scoreText(node.score)}`]);
  const more = nodes.length - MAX_LISTED - 1;
  return more > 0 ? [...parts, ` and ${more} more`] : parts;
}
