// The beam as a tree: each step is a column, with the beam in its order on top and pruned hypotheses below.

import { curvedPath, picture, shape } from "./elements.js";
import { shortened, TYPE_SIZE, widthOf } from "./tokens.js";
import { scoreText } from "./wording.js";

const BOX_HEIGHT = 38;
const ROW_HEIGHT = 50;
const PRUNED_GAP = 0.3; // above the pruned hypotheses, in rows
const TREE_HEAD = 34;
const TREE_MARGIN = 12;
const MEANINGS = { kept: "kept", finished: "finished", truncated: "truncated", pruned: "pruned" };

/**
 * { node, steps, show(step), highlight(number), numberAt(event), reveal(number), pin(x), middle(step) }: the number of
 * a node is its index in the list, `reveal` scrolls to a node, `pin` keeps the legend visible while scrolling, and
 * `middle` is the center of a step's column.
 */
export function drawTree(nodes) {
  const layout = treeLayout(nodes);
  const ranks = bestRanks(nodes);
  const band = shape("rect", { class: "band", y: 0, width: layout.boxWidth + 16, height: layout.foot, rx: 8 });
  const edges = nodes.map((node, number) => edge(layout, node, number, ranks[number]));
  const boxes = nodes.map((node, number) => box(layout, node, number, ranks[number]));
  const numbers = Array.from({ length: layout.steps + 1 }, (_, step) => stepName(layout, step));
  const legend = shape("g", { class: "pinned" }, treeLegend(layout, nodes, ranks));
  const order = (a, b) => drawingOrder(a) - drawingOrder(b); // better paths are drawn on top
  const node = picture(
    "tree",
    layout.width,
    layout.height,
    band,
    numbers,
    [...edges].sort(order),
    startBox(layout, ranks.includes(1)),
    boxes,
    legend,
  );
  const show = (step) => {
    band.setAttribute("x", layout.x(step) - layout.boxWidth / 2 - 8);
    nodes.forEach(({ length }, number) => {
      for (const part of [edges[number], boxes[number]]) part.classList.toggle("later", length > step);
    });
    numbers.forEach((name, number) => name.classList.toggle("highlighted", number === step));
  };
  const highlight = (number) => {
    const path = new Set(pathTo(nodes, number));
    for (const parts of [edges, boxes])
      parts.forEach((part, index) => part.classList.toggle("highlighted", path.has(index)));
    node.classList.toggle("has-highlight", path.size > 0);
  };
  const numberAt = (event) => {
    const found = event.target.closest("[data-number]");
    return found ? Number(found.dataset.number) : null;
  };
  const pin = (x) => legend.setAttribute("transform", `translate(${x} 0)`);
  const reveal = (number) => boxes[number]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  return { node, steps: layout.steps, show, highlight, numberAt, reveal, pin, middle: layout.x };
}

/** The indices of the nodes from the first token to this one. */
export function pathTo(nodes, number) {
  const path = [];
  for (let index = number; index !== null; index = nodes[index].parent) path.unshift(index);
  return path;
}

/** For each node the best rank among itself and its descendants; null if none of them is a result. */
function bestRanks(nodes) {
  const ranks = nodes.map((node) => node.rank);
  // Backwards, so that descendants come before their ancestors.
  for (let index = nodes.length - 1; index >= 0; index -= 1) {
    const { parent } = nodes[index];
    if (parent !== null && ranks[index] !== null) ranks[parent] = Math.min(ranks[index], ranks[parent] ?? ranks[index]);
  }
  return ranks;
}

function treeLayout(nodes) {
  const beam = Math.max(...countSteps(nodes.filter((node) => node.fate !== "pruned")).values(), 0);
  const counts = new Map();
  const rows = nodes.map(({ length, fate }) => {
    const key = `${length} ${fate === "pruned"}`;
    const above = counts.get(key) ?? 0;
    counts.set(key, above + 1);
    return above + (fate === "pruned" ? beam + PRUNED_GAP : 0);
  });
  const steps = Math.max(...nodes.map((node) => node.length));
  const boxWidth = Math.ceil(Math.max(...nodes.map((node) => widthOf(shortened(node.label))), widthOf("<end>"))) + 22;
  const lowest = Math.max(...rows);
  const columnWidth = boxWidth + 36 + 2 * Math.min(lowest, 20); // many rows need space for their edges
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

function edgeClass(fate, rank) {
  if (rank === null) return fate === "pruned" ? "pruned" : "kept";
  return rank === 1 ? "best" : "result";
}

function drawingOrder(edgeNode) {
  return ["pruned", "kept", "result", "best"].findIndex((name) => edgeNode.classList.contains(name));
}

/** A curve from the right side of the parent to the left side of the child. */
function edge(layout, node, number, rank) {
  const begin = [layout.x(node.length - 1) + layout.boxWidth / 2, layout.y(node.parent)];
  const end = [layout.x(node.length) - layout.boxWidth / 2, layout.y(number)];
  return shape("path", { class: `edge ${edgeClass(node.fate, rank)}`, d: curvedPath(...begin, ...end) });
}

function box(layout, node, number, rank) {
  const name = rank === 1 && node.fate === "kept" ? "best" : node.fate;
  const center = [layout.x(node.length), layout.y(number)];
  return shape(
    "g",
    { class: `node ${name}`, "data-number": number },
    boxParts(layout, ...center, shortened(node.label), scoreText(node.score)),
    rankBadge(layout, ...center, node.rank),
    shape("title", {}, node.token),
  );
}

function startBox(layout, leadsToBest) {
  return shape(
    "g",
    { class: leadsToBest ? "node best" : "node kept" },
    boxParts(layout, layout.x(0), layout.y(null), "start", "score"),
  );
}

function boxParts(layout, x, y, label, score) {
  const corner = { x: x - layout.boxWidth / 2, y: y - BOX_HEIGHT / 2 };
  return [
    shape("rect", { ...corner, width: layout.boxWidth, height: BOX_HEIGHT, rx: 6 }),
    shape("text", { class: "token", x, y: y - 1, "text-anchor": "middle" }, label),
    shape("text", { class: "score", x, y: y + 13, "text-anchor": "middle" }, score),
  ];
}

function rankBadge(layout, x, y, rank) {
  if (rank === null) return null;
  const [right, top] = [x + layout.boxWidth / 2, y - BOX_HEIGHT / 2];
  const badge = shape("rect", { class: "badge", x: right - 15, y: top - 8, width: 24, height: 16, rx: 4 });
  return [badge, shape("text", { class: "rank", x: right - 3, y: top + 4, "text-anchor": "middle" }, `#${rank}`)];
}

function stepName(layout, step) {
  const name = step ? String(step) : "step";
  return shape("text", { class: "caption", x: layout.x(step), y: 20, "text-anchor": "middle" }, name);
}

/** The legend has the kinds of nodes that the tree contains. */
function treeLegend(layout, nodes, ranks) {
  const entries = Object.entries(MEANINGS).filter(([fate]) => nodes.some((node) => node.fate === fate));
  if (ranks.includes(1)) entries.push(["best", "path to #1"]);
  let x = TREE_MARGIN + 4;
  return entries.map(([fate, meaning]) => {
    const entry = shape(
      "g",
      { class: `node ${fate.replace(" ", "-")}` },
      shape("rect", { x, y: layout.foot + 10, width: 24, height: 14, rx: 3 }),
      shape("text", { class: "caption", x: x + 31, y: layout.foot + 21 }, meaning),
    );
    x += 31 + widthOf(meaning, TYPE_SIZE - 1) + 20;
    return entry;
  });
}
