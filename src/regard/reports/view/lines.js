// Lines from output tokens to the source tokens they looked at, as thick as the weight.

import { bend, picture, shape } from "./elements.js";
import { shortened, tokenText, TYPE_SIZE, widthOf } from "./tokens.js";

const LINE_HEIGHT = 26; // from one token to the next, in pixels
const HEAD = 34;
const THICKEST = 14;
const THINNEST_SHOWN = 0.01; // weights below it would only blur the picture
const WIDEST = 640;

/** { node, light(place), placeAt(event) }, as for the map. The source stands on the left, the output on the right. */
export function drawLines(source, output, weights, room) {
  const sheet = linesSheet(source, output, room);
  const curves = weights
    .flatMap((row, from) => row.map((weight, to) => ({ from, to, weight })))
    .filter(({ weight }) => weight >= THINNEST_SHOWN)
    .sort((a, b) => a.weight - b.weight) // the strong lie above the weak
    .map((line) => ({ ...line, node: curve(sheet, line) }));
  const sources = tokenColumn(sheet, source, sheet.left - 10, "end");
  const outputs = tokenColumn(sheet, output, sheet.right + 10, "start");
  const node = picture(
    "lines",
    sheet.width,
    sheet.height,
    heading(sheet.left - 10, "end", "source"),
    heading(sheet.right + 10, "start", "output"),
    curves.map((line) => line.node),
    wordMarks(sheet, source, sheet.left - 4),
    wordMarks(sheet, output, sheet.right + 4),
    sources,
    outputs,
  );
  const light = (place) => {
    const isDark = place.output === null && place.source === null;
    const reaches = (line) => (place.output ?? line.from) === line.from && (place.source ?? line.to) === line.to;
    for (const line of curves) {
      line.node.classList.toggle("lit", !isDark && reaches(line));
      line.node.classList.toggle("unlit", !isDark && !reaches(line));
    }
    sources.forEach((label, number) => label.classList.toggle("lit", number === place.source));
    outputs.forEach((label, number) => label.classList.toggle("lit", number === place.output));
  };
  return { node, light, placeAt: (event) => linesPlaceAt(sheet, node, source, output, event) };
}

function linesSheet(source, output, room) {
  const widest = (labels) => Math.ceil(Math.max(...labels.map((label) => widthOf(shortened(label))))) + 14;
  const left = widest(source.labels);
  const beyond = widest(output.labels);
  const width = Math.max(Math.min(room, WIDEST), left + beyond + 120);
  const count = Math.max(source.labels.length, output.labels.length);
  // The shorter side stands in the middle of the longer one.
  const offset = (labels) => HEAD + ((count - labels.length) * LINE_HEIGHT) / 2;
  const y = (side, place) => offset(side.labels) + (place + 0.5) * LINE_HEIGHT;
  return {
    left,
    right: width - beyond,
    width,
    height: HEAD + count * LINE_HEIGHT + 8,
    y,
    source: (place) => y(source, place),
    output: (place) => y(output, place),
  };
}

function curve(sheet, { from, to, weight }) {
  const path = shape("path", { class: "line", d: bend(sheet.right, sheet.output(from), sheet.left, sheet.source(to)) });
  path.style.strokeWidth = `${Math.max(0.5, THICKEST * weight)}px`;
  return path;
}

function tokenColumn(sheet, side, x, anchor) {
  return side.labels.map((label, place) => {
    const y = sheet.y(side, place) + 0.36 * TYPE_SIZE;
    return tokenText(shortened(label), side.tokens[place], { x, y, "text-anchor": anchor });
  });
}

function heading(x, anchor, label) {
  return shape("text", { class: "caption", x, y: 20, "text-anchor": anchor }, label);
}

/** A bracket beside the pieces of one word. */
function wordMarks(sheet, side, x) {
  const marks = side.split.map(([begin, end]) => `M${x} ${sheet.y(side, begin) - 8}V${sheet.y(side, end - 1) + 8}`);
  return shape("path", { class: "bracket", d: marks.join("") });
}

/** Left of the middle it is a source token that lies under the pointer, right of it an output token. */
function linesPlaceAt(sheet, node, source, output, event) {
  const box = node.getBoundingClientRect();
  const x = event.clientX - box.left;
  const isSource = x < (sheet.left + sheet.right) / 2;
  const side = isSource ? source : output;
  const place = Math.round((event.clientY - box.top - sheet.y(side, 0)) / LINE_HEIGHT);
  if (place < 0 || place >= side.labels.length) return { output: null, source: null };
  return isSource ? { output: null, source: place } : { output: place, source: null };
}
