// Lines from output tokens to the source tokens that they attend to; the line width is the weight.

import { curvedPath, picture, shape } from "./elements.js";
import { shortened, tokenText, TYPE_SIZE, widthOf } from "./tokens.js";

const LINE_HEIGHT = 26; // from one token to the next, in pixels
const HEAD = 34;
const MAX_LINE_WIDTH = 14;
const MIN_WEIGHT = 0.01; // smaller weights have no line
const MAX_WIDTH = 640;

/** { node, highlight(position), positionAt(event) }, as for the map. The source is left, the output right. */
export function drawLines(source, output, weights, availableWidth) {
  const layout = linesLayout(source, output, availableWidth);
  const curves = weights
    .flatMap((row, from) => row.map((weight, to) => ({ from, to, weight })))
    .filter(({ weight }) => weight >= MIN_WEIGHT)
    .sort((a, b) => a.weight - b.weight) // large weights are drawn on top
    .map((line) => ({ ...line, node: curve(layout, line) }));
  const sources = tokenColumn(layout, source, layout.left - 10, "end");
  const outputs = tokenColumn(layout, output, layout.right + 10, "start");
  const node = picture(
    "lines",
    layout.width,
    layout.height,
    heading(layout.left - 10, "end", source.name),
    heading(layout.right + 10, "start", output.name),
    curves.map((line) => line.node),
    wordMarks(layout, source, layout.left - 4),
    wordMarks(layout, output, layout.right + 4),
    sources,
    outputs,
  );
  const highlight = (position) => {
    const isNone = position.output === null && position.source === null;
    const isConnected = (line) =>
      (position.output ?? line.from) === line.from && (position.source ?? line.to) === line.to;
    for (const line of curves) {
      line.node.classList.toggle("highlighted", !isNone && isConnected(line));
      line.node.classList.toggle("dimmed", !isNone && !isConnected(line));
    }
    sources.forEach((label, index) => label.classList.toggle("highlighted", index === position.source));
    outputs.forEach((label, index) => label.classList.toggle("highlighted", index === position.output));
  };
  return { node, highlight, positionAt: (event) => linesPositionAt(layout, node, source, output, event) };
}

function linesLayout(source, output, availableWidth) {
  const widest = (labels) => Math.ceil(Math.max(...labels.map((label) => widthOf(shortened(label))))) + 14;
  const left = widest(source.labels);
  const labelWidth = widest(output.labels);
  const width = Math.max(Math.min(availableWidth, MAX_WIDTH), left + labelWidth + 120);
  const count = Math.max(source.labels.length, output.labels.length);
  // The shorter side is centered.
  const offset = (labels) => HEAD + ((count - labels.length) * LINE_HEIGHT) / 2;
  const y = (side, index) => offset(side.labels) + (index + 0.5) * LINE_HEIGHT;
  return {
    left,
    right: width - labelWidth,
    width,
    height: HEAD + count * LINE_HEIGHT + 8,
    y,
    source: (index) => y(source, index),
    output: (index) => y(output, index),
  };
}

function curve(layout, { from, to, weight }) {
  const d = curvedPath(layout.right, layout.output(from), layout.left, layout.source(to));
  const path = shape("path", { class: "line", d });
  path.style.strokeWidth = `${Math.max(0.5, MAX_LINE_WIDTH * weight)}px`;
  return path;
}

function tokenColumn(layout, side, x, anchor) {
  return side.labels.map((label, index) => {
    const y = layout.y(side, index) + 0.36 * TYPE_SIZE;
    return tokenText(shortened(label), side.tokens[index], { x, y, "text-anchor": anchor });
  });
}

function heading(x, anchor, label) {
  return shape("text", { class: "caption", x, y: 20, "text-anchor": anchor }, label);
}

/** A bracket next to the subwords of a word. */
function wordMarks(layout, side, x) {
  const marks = side.split.map(([begin, end]) => `M${x} ${layout.y(side, begin) - 8}V${layout.y(side, end - 1) + 8}`);
  return shape("path", { class: "bracket", d: marks.join("") });
}

/** The token under the pointer: a source token in the left half, an output token in the right half. */
function linesPositionAt(layout, node, source, output, event) {
  const box = node.getBoundingClientRect();
  const x = event.clientX - box.left;
  const isSource = x < (layout.left + layout.right) / 2;
  const side = isSource ? source : output;
  const index = Math.round((event.clientY - box.top - layout.y(side, 0)) / LINE_HEIGHT);
  if (index < 0 || index >= side.labels.length) return { output: null, source: null };
  return isSource ? { output: null, source: index } : { output: index, source: null };
}
