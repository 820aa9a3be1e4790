// The output as a flow of buttons: each token with its probability, and its alternatives behind it.

import { element } from "./elements.js";
import { openAlternatives } from "./alternatives.js";
import { percentText } from "./wording.js";

/**
 * { node, light(place), focus(token) }. The first `forced` tokens were not the model's choice.
 * `onForce(prefix)` asks for a translation that begins so; null: nobody can be asked.
 */
export function drawOutput(output, hypothesis, forced, onForce, onLight) {
  const buttons = output.labels.map((label, place) => tokenButton(output, hypothesis, place, place < forced));
  buttons.forEach((button, place) => {
    const alternatives = hypothesis.alternatives?.[place] ?? [];
    const choose = onForce && ((token) => onForce([...output.tokens.slice(0, place), token]));
    const isOpen = () => button.getAttribute("aria-expanded") === "true";
    const open = () =>
      isOpen() ? button.focus() : openAlternatives(button, output.tokens[place], alternatives, choose);
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
      button.addEventListener(name, () => onLight({ output: place, source: null }));
    for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => onLight(null));
  });
  const goesOn = new Set(
    output.words.flatMap(([begin, end]) => Array.from({ length: end - begin - 1 }, (_, piece) => begin + piece + 1)),
  );
  const items = buttons.map((button, place) => element("li", { class: goesOn.has(place) ? "goes-on" : null }, button));
  return {
    node: element("ol", { class: "tokens", dir: output.direction, "aria-label": "output tokens" }, items),
    light: (place) => buttons.forEach((button, number) => button.classList.toggle("lit", number === place.output)),
    focus: (place) => buttons[Math.min(place, buttons.length - 1)]?.focus(),
  };
}

function tokenButton(output, hypothesis, place, isForced) {
  const label = output.labels[place];
  const percent = percentText(Math.exp(hypothesis.log_probabilities[place]));
  const bar = element("span", { class: "bar" }, element("span"));
  bar.firstChild.style.width = `${100 * Math.exp(hypothesis.log_probabilities[place])}%`;
  return element(
    "button",
    {
      type: "button",
      class: isForced ? "token forced" : "token",
      title: output.tokens[place],
      "data-label": label,
      "aria-label": `${label} ${percent}${isForced ? ", forced" : ""}`,
    },
    element("bdi", { class: "label" }, label),
    " ", // between two words
    bar,
    element("span", { class: "percent" }, percent),
  );
}
