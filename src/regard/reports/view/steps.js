// Following a search step by step: the tree, buttons, a slider, arrow keys, and each step in words.

import { clamp, element, followPointer } from "./elements.js";
import { drawTree, wayTo } from "./tree.js";
import { quoted, scoreText, stepInWords } from "./wording.js";

/** The tree with its controls. `step` is where to begin, null: at the end. `onStep` is told of every move. */
export function drawSteps(nodes, step, onStep) {
  const tree = drawTree(nodes);
  const words = element("p", { class: "readout", "aria-live": "polite" });
  const slider = element("input", { type: "range", min: 0, max: tree.steps, "aria-label": "step of the search" });
  const counter = element("span", { class: "counter" });
  const stage = element(
    "div",
    {
      class: "stage",
      role: "application",
      tabindex: "0",
      "aria-label": "Beam as a tree. Left and right arrow keys follow the steps, up and down choose a hypothesis.",
    },
    tree.node,
  );
  let current = tree.steps;
  let lit = null;

  const light = (number) => {
    lit = number;
    tree.light(number);
    words.replaceChildren(...(number === null ? stepInWords(nodes, current, tree.steps) : nodeInWords(nodes, number)));
  };
  const go = (target) => {
    current = clamp(target, 0, tree.steps);
    tree.show(current);
    light(null);
    slider.value = current;
    slider.setAttribute("aria-valuetext", `step ${current} of ${tree.steps}`);
    counter.textContent = `step ${current} of ${tree.steps}`;
    keepStepInSight(stage, tree, current);
  };
  const follow = (target) => (go(target), onStep(current === tree.steps ? null : current));
  const button = (label, sign, target) =>
    element("button", { type: "button", "aria-label": label, title: label, onclick: () => follow(target()) }, sign);
  const moves = { ArrowLeft: () => current - 1, ArrowRight: () => current + 1, Home: () => 0, End: () => tree.steps };

  stage.addEventListener("scroll", () => tree.pin(stage.scrollLeft));
  slider.addEventListener("input", () => follow(Number(slider.value)));
  stage.addEventListener("keydown", (event) => {
    if (event.key in moves) follow(moves[event.key]());
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      light(neighbour(nodes, current, lit, event.key === "ArrowDown" ? 1 : -1));
      tree.reveal(lit);
    } else return;
    event.preventDefault();
  });
  const point = (event) => {
    const number = tree.numberAt(event);
    if (number !== lit) light(number);
  };
  followPointer(stage, point, () => light(null));

  const controls = element(
    "div",
    { class: "controls", role: "group", "aria-label": "steps of the search" },
    button("first step", "⏮", () => 0),
    button("one step back", "◀", () => current - 1),
    slider,
    button("one step forward", "▶", () => current + 1),
    button("last step", "⏭", () => tree.steps),
    counter,
  );
  go(step ?? tree.steps);
  return { parts: [controls, stage, words], picture: tree.node, settle: () => keepStepInSight(stage, tree, current) };
}

function nodeInWords(nodes, number) {
  const { score, fate, rank } = nodes[number];
  const labels = wayTo(nodes, number).flatMap((place) => [" ", quoted(nodes[place].label)]);
  return [
    ...labels.slice(1),
    ` · score ${scoreText(score)} · ${fate}${rank === null ? "" : ` · #${rank} of the results`}`,
  ];
}

/** The next hypothesis of the same step, above or below. */
function neighbour(nodes, step, number, by) {
  const members = nodes.map((_, place) => place).filter((place) => nodes[place].length === step);
  if (!members.length) return null;
  return members[clamp(number === null ? 0 : members.indexOf(number) + by, 0, members.length - 1)];
}

/** The step stands in the middle of its box where the tree is wider than that. */
function keepStepInSight(stage, tree, step) {
  stage.scrollLeft = tree.middle(step) - stage.clientWidth / 2;
}
