// The beam as a tree: every step is a column, the beam stands on top in its order, and below it what was pruned.

import { bend, picture, shape } from "./elements.js";
import { shortened, TYPE_SIZE, widthOf } from "./tokens.js";
import { scoreText } from "./wording.js";

const BOX_HEIGHT = 38;
const ROW_HEIGHT = 50;
const ABOVE_PRUNED = 0.3; // rows
const TREE_HEAD = 34;
const TREE_MARGIN = 12;
const MEANINGS = { kept: "kept", finished: "finished", truncated: "truncated", pruned: "pruned" };

/**
 * { node, steps, show(step), light(number), numberAt(event), reveal(number), pin(x), middle(step) }: nodes are named by
 * their place in the list, `reveal` scrolls to one, `pin` keeps the legend in sight when the box has scrolled, and
 * `middle` is that of a step's column.
 */
export function drawTree(nodes) {
  const sheet = treeSheet(nodes);
  const ranks = bestRanks(nodes);
  const band = shape("rect", { class: "band", y: 0, width: sheet.boxWidth + 16, height: sheet.foot, rx: 8 });
  const edges = nodes.map((node, number) => edge(sheet, node, number, ranks[number]));
  const boxes = nodes.map((node, number) => box(sheet, node, number, ranks[number]));
  const numbers = Array.from({ length: sheet.steps + 1 }, (_, step) => stepName(sheet, step));
  const legend = shape("g", { class: "pinned" }, treeLegend(sheet, nodes, ranks));
  const order = (a, b) => strength(a) - strength(b); // the stronger lies above the weaker
  const node = picture(
    "tree",
    sheet.width,
    sheet.height,
    band,
    numbers,
    [...edges].sort(order),
    startBox(sheet, ranks.includes(1)),
    boxes,
    legend,
  );
  const show = (step) => {
    band.setAttribute("x", sheet.x(step) - sheet.boxWidth / 2 - 8);
    nodes.forEach(({ length }, number) => {
      for (const part of [edges[number], boxes[number]]) part.classList.toggle("later", length > step);
    });
    numbers.forEach((name, number) => name.classList.toggle("lit", number === step));
  };
  const light = (number) => {
    const way = new Set(wayTo(nodes, number));
    for (const parts of [edges, boxes]) parts.forEach((part, place) => part.classList.toggle("lit", way.has(place)));
    node.classList.toggle("has-light", way.size > 0);
  };
  const numberAt = (event) => {
    const found = event.target.closest("[data-number]");
    return found ? Number(found.dataset.number) : null;
  };
  const pin = (x) => legend.setAttribute("transform", `translate(${x} 0)`);
  const reveal = (number) => boxes[number]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  return { node, steps: sheet.steps, show, light, numberAt, reveal, pin, middle: sheet.x };
}

/** The nodes from the first token to this one. */
export function wayTo(nodes, number) {
  const way = [];
  for (let place = number; place !== null; place = nodes[place].parent) way.unshift(place);
  return way;
}

/** For each node the best rank that it leads to, its own or a descendant's; null: it leads to no result. */
function bestRanks(nodes) {
  const ranks = nodes.map((node) => node.rank);
  // Backwards: what a node leads to is known before its parent asks.
  for (let place = nodes.length - 1; place >= 0; place -= 1) {
    const { parent } = nodes[place];
    if (parent !== null && ranks[place] !== null) ranks[parent] = Math.min(ranks[place], ranks[parent] ?? ranks[place]);
  }
  return ranks;
}

function treeSheet(nodes) {
  const beam = Math.max(...countSteps(nodes.filter((node) => node.fate !== "pruned")).values(), 0);
  const taken = new Map();
  const rows = nodes.map(({ length, fate }) => {
    const key = `${length} ${fate === "pruned"}`;
    const above = taken.get(key) ?? 0;
    taken.set(key, above + 1);
    return above + (fate === "pruned" ? beam + ABOVE_PRUNED : 0);
  });
  const steps = Math.max(...nodes.map((node) => node.length));
  const boxWidth = Math.ceil(Math.max(...nodes.map((node) => widthOf(shortened(node.label))), widthOf("<end>"))) + 22;
  const lowest = Math.max(...rows);
  const columnWidth = boxWidth + 36 + 2 * Math.min(lowest, 20); // with many rows, edges would be steep
  const foot = TREE_HEAD + (lowest + 1) * ROW_HEIGHT;
  return {
    steps,
    boxWidth,
    columnWidth,
    foot,
    width: Math.max(2 * TREE_MARGIN + steps * columnWidth + boxWidth + 14, 560),
    height: foot + 36,
    x: (step) => TREE_MARGIN + 4 + boxWidth / 2 + step * columnWidth,
    y: (number) => TREE_HEAD + BOX_HEIGHT / 2 + (number === null ? 0 : rows[number] * ROW_HEIGHT),
  };
}

function countSteps(nodes) {
  const counts = new Map();
  for (const node of nodes) counts.set(node.length, (counts.get(node.length) ?? 0) + 1);
  return counts;
}

function look(fate, rank) {
  if (rank === null) return fate === "pruned" ? "pruned" : "kept";
  return rank === 1 ? "best" : "result";
}

function strength(edgeNode) {
  return ["pruned", "kept", "result", "best"].findIndex((name) => edgeNode.classList.contains(name));
}

/** From the right of the parent to the left of the child: between columns there is no box to cross. */
function edge(sheet, node, number, rank) {
  const begin = [sheet.x(node.length - 1) + sheet.boxWidth / 2, sheet.y(node.parent)];
  const end = [sheet.x(node.length) - sheet.boxWidth / 2, sheet.y(number)];
  return shape("path", { class: `edge ${look(node.fate, rank)}`, d: bend(...begin, ...end) });
}

function box(sheet, node, number, rank) {
  const name = rank === 1 && node.fate === "kept" ? "best" : node.fate;
  const place = [sheet.x(node.length), sheet.y(number)];
  return shape(
    "g",
    { class: `node ${name}`, "data-number": number },
    boxParts(sheet, ...place, shortened(node.label), scoreText(node.score)),
    rankBadge(sheet, ...place, node.rank),
    shape("title", {}, node.token),
  );
}

function startBox(sheet, leadsToBest) {
  return shape(
    "g",
    { class: leadsToBest ? "node best" : "node kept" },
    boxParts(sheet, sheet.x(0), sheet.y(null), "start", "score"),
  );
}

function boxParts(sheet, x, y, label, score) {
  const corner = { x: x - sheet.boxWidth / 2, y: y - BOX_HEIGHT / 2 };
  return [
    shape("rect", { ...corner, width: sheet.boxWidth, height: BOX_HEIGHT, rx: 6 }),
    shape("text", { class: "token", x, y: y - 1, "text-anchor": "middle" }, label),
    shape("text", { class: "score", x, y: y + 13, "text-anchor": "middle" }, score),
  ];
}

function rankBadge(sheet, x, y, rank) {
  if (rank === null) return null;
  const [right, top] = [x + sheet.boxWidth / 2, y - BOX_HEIGHT / 2];
  const badge = shape("rect", { class: "badge", x: right - 15, y: top - 8, width: 24, height: 16, rx: 4 });
  return [badge, shape("text", { class: "rank", x: right - 3, y: top + 4, "text-anchor": "middle" }, `#${rank}`)];
}

function stepName(sheet, step) {
  const name = step ? String(step) : "step";
  return shape("text", { class: "caption", x: sheet.x(step), y: 20, "text-anchor": "middle" }, name);
}

/** Only what there is to see is explained. */
function treeLegend(sheet, nodes, ranks) {
  const entries = Object.entries(MEANINGS).filter(([fate]) => nodes.some((node) => node.fate === fate));
  if (ranks.includes(1)) entries.push(["best", "the way to #1"]);
  let x = TREE_MARGIN + 4;
  return entries.map(([fate, meaning]) => {
    const entry = shape(
      "g",
      { class: `node ${fate.replace(" ", "-")}` },
      shape("rect", { x, y: sheet.foot + 10, width: 24, height: 14, rx: 3 }),
      shape("text", { class: "caption", x: x + 31, y: sheet.foot + 21 }, meaning),
    );
    x += 31 + widthOf(meaning, TYPE_SIZE - 1) + 20;
    return entry;
  });
}
