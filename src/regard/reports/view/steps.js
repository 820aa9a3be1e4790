// The search step by step: the beam tree, its controls, and a description of each step.

import { clamp, element, followPointer, shape } from "./elements.js";
import { drawTree, pathTo } from "./tree.js";
import { describeStep, quoted, scoreText } from "./wording.js";

// Inline icons, because many fonts lack the media control characters.
const ICONS = {
  first: "M3 2h2v12H3zM14 2v12L5.5 8z",
  previous: "M12 2v12L3.5 8z",
  next: "M4 2v12l8.5-6z",
  last: "M11 2h2v12h-2zM2 2v12l8.5-6z",
};

/** The tree with its controls. `step` is the initial step, null for the last; `onStep(step)` is called on changes. */
export function drawSteps(nodes, step, onStep) {
  const tree = drawTree(nodes);
  const description = element("p", { class: "readout", "aria-live": "polite" });
  const slider = element("input", { type: "range", min: 0, max: tree.steps, "aria-label": "step of the search" });
  const counter = element("span", { class: "counter" });
  const stage = element(
    "div",
    {
      class: "stage",
      role: "application",
      tabindex: "0",
      "aria-label": "Beam tree. Left and right arrow keys change the step, up and down arrow keys select a hypothesis.",
    },
    tree.node,
  );
  let current = tree.steps;
  let highlighted = null;

  const highlight = (number) => {
    highlighted = number;
    tree.highlight(number);
    const isStep = number === null;
    description.replaceChildren(...(isStep ? describeStep(nodes, current, tree.steps) : describeNode(nodes, number)));
  };
  const go = (target) => {
    current = clamp(target, 0, tree.steps);
    tree.show(current);
    highlight(null);
    slider.value = current;
    slider.setAttribute("aria-valuetext", `step ${current} of ${tree.steps}`);
    counter.textContent = `step ${current} of ${tree.steps}`;
    scrollToStep(stage, tree, current);
  };
  const select = (target) => (go(target), onStep(current === tree.steps ? null : current));
  const button = (label, icon, target) =>
    element(
      "button",
      { type: "button", "aria-label": label, title: label, onclick: () => select(target()) },
      drawIcon(ICONS[icon]),
    );
  const moves = { ArrowLeft: () => current - 1, ArrowRight: () => current + 1, Home: () => 0, End: () => tree.steps };

  stage.addEventListener("scroll", () => tree.pin(stage.scrollLeft));
  slider.addEventListener("input", () => select(Number(slider.value)));
  stage.addEventListener("keydown", (event) => {
    if (event.key in moves) select(moves[event.key]());
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      highlight(neighbor(nodes, current, highlighted, event.key === "ArrowDown" ? 1 : -1));
      tree.reveal(highlighted);
    } else return;
    event.preventDefault();
  });
  const point = (event) => {
    const number = tree.numberAt(event);
    if (number !== highlighted) highlight(number);
  };
  followPointer(stage, point, () => highlight(null));

  const controls = element(
    "div",
    { class: "controls", role: "group", "aria-label": "steps of the search" },
    button("first step", "first", () => 0),
    button("previous step", "previous", () => current - 1),
    slider,
    button("next step", "next", () => current + 1),
    button("last step", "last", () => tree.steps),
    counter,
  );
  go(step ?? tree.steps);
  return {
    parts: [controls, stage, description],
    picture: tree.node,
    scrollToStep: () => scrollToStep(stage, tree, current),
  };
}

function drawIcon(path) {
  return shape("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, shape("path", { d: path }));
}

function describeNode(nodes, number) {
  const { score, fate, rank } = nodes[number];
  const labels = pathTo(nodes, number).flatMap((index) => [" ", quoted(nodes[index].label)]);
  return [
    ...labels.slice(1),
    ` · score ${scoreText(score)} · ${fate}${rank === null ? "" : ` · #${rank} of the results`}`,
  ];
}

/** The next hypothesis of the same step, above or below. */
function neighbor(nodes, step, number, by) {
  const members = nodes.map((_, index) => index).filter((index) => nodes[index].length === step);
  if (!members.length) return null;
  return members[clamp(number === null ? 0 : members.indexOf(number) + by, 0, members.length - 1)];
}

/** Scrolls the step to the middle, if the tree is wider than its box. */
function scrollToStep(stage, tree, step) {
  stage.scrollLeft = tree.middle(step) - stage.clientWidth / 2;
}
