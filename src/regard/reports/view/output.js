// The output as a row of buttons: each token with its probability and a list of alternatives.

import { element } from "./elements.js";
import { openAlternatives } from "./alternatives.js";
import { percentText } from "./wording.js";

/**
 * { node, highlight(position), focus(index) }. The first `forced` tokens were forced. `onForce(prefix)` requests a
 * translation that starts with these tokens; it is null without a server.
 */
export function drawOutput(output, hypothesis, forced, onForce, onHighlight) {
  const buttons = output.labels.map((label, index) => tokenButton(output, hypothesis, index, index < forced));
  buttons.forEach((button, index) => {
    const alternatives = hypothesis.alternatives?.[index] ?? [];
    const choose = onForce && ((token) => onForce([...output.tokens.slice(0, index), token]));
    const isOpen = () => button.getAttribute("aria-expanded") === "true";
    const open = () =>
      isOpen() ? button.focus() : openAlternatives(button, output.tokens[index], alternatives, choose);
    if (alternatives.length) {
      button.setAttribute("aria-haspopup", "listbox");
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("mousedown", (event) => isOpen() && event.preventDefault()); // the click closes it
      button.addEventListener("click", open);
      button.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowDown") return;
        event.preventDefault();
        open();
      });
    }
    for (const name of ["pointerenter", "focus"])
      button.addEventListener(name, () => onHighlight({ output: index, source: null }));
    for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => onHighlight(null));
  });
  const continuations = new Set(
    output.words.flatMap(([begin, end]) => Array.from({ length: end - begin - 1 }, (_, offset) => begin + offset + 1)),
  );
  const items = buttons.map((button, index) =>
    element("li", { class: continuations.has(index) ? "continuation" : null }, button),
  );
  return {
    node: element("ol", { class: "tokens", dir: output.direction, "aria-label": "output tokens" }, items),
    highlight: (position) =>
      buttons.forEach((button, index) => button.classList.toggle("highlighted", index === position.output)),
    focus: (index) => buttons[Math.min(index, buttons.length - 1)]?.focus(),
  };
}

function tokenButton(output, hypothesis, index, isForced) {
  const label = output.labels[index];
  const percent = percentText(Math.exp(hypothesis.log_probabilities[index]));
  const bar = element("span", { class: "bar" }, element("span"));
  bar.firstChild.style.width = `${100 * Math.exp(hypothesis.log_probabilities[index])}%`;
  return element(
    "button",
    {
      type: "button",
      class: isForced ? "token forced" : "token",
      title: output.tokens[index],
      "data-label": label,
      "aria-label": `${label} ${percent}${isForced ? ", forced" : ""}`,
    },
    element("bdi", { class: "label" }, label),
    " ", // separates the texts
    bar,
    element("span", { class: "percent" }, percent),
  );
}
