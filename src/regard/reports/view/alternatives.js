// The most likely alternatives to a token: a list that opens below it.

import { clamp, element, uniqueId } from "./elements.js";
import { percentText } from "./wording.js";

/** Opens the list below `button`. `onChoose(token)` is null without a server, which could translate again. */
export function openAlternatives(button, current, alternatives, onChoose) {
  const options = alternatives.map((alternative) => optionOf(alternative, current, onChoose !== null));
  const hint = element(
    "p",
    { class: "hint" },
    onChoose ? "Choose a token, and the translation continues from it." : "The most likely tokens at this step.",
  );
  const list = element(
    "ul",
    { role: "listbox", tabindex: "-1", "aria-label": `alternatives to ${button.dataset.label}` },
    options,
  );
  const popover = element("div", { class: "alternatives" }, hint, list);
  let active = Math.max(
    0,
    alternatives.findIndex((alternative) => alternative.token === current),
  );

  const close = () => button.focus(); // the list closes when it loses the focus
  const choose = () => {
    close();
    if (onChoose) onChoose(alternatives[active].token);
  };
  const activate = (index) => {
    active = clamp(index, 0, options.length - 1);
    options.forEach((option, number) => option.classList.toggle("active", number === active));
    list.setAttribute("aria-activedescendant", options[active].id);
    options[active].scrollIntoView({ block: "nearest" });
  };
  const moves = {
    ArrowDown: () => active + 1,
    ArrowUp: () => active - 1,
    Home: () => 0,
    End: () => options.length - 1,
  };
  list.addEventListener("keydown", (event) => {
    if (event.key in moves) activate(moves[event.key]());
    else if (event.key === "Enter" || event.key === " ") choose();
    else if (event.key === "Escape" || event.key === "Tab") close();
    else return;
    if (event.key !== "Tab") event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("blur", () => {
    popover.remove();
    button.setAttribute("aria-expanded", "false");
  });
  options.forEach((option, number) => {
    option.addEventListener("pointermove", () => activate(number));
    option.addEventListener("mousedown", (event) => event.preventDefault()); // keeps the list open until the click
    option.addEventListener("click", () => (activate(number), choose()));
  });

  button.setAttribute("aria-expanded", "true");
  button.parentElement.append(popover);
  keepInWindow(popover, button);
  list.focus({ preventScroll: true });
  activate(active);
}

function optionOf({ token, label, probability }, current, isChoosable) {
  const bar = element("meter", { min: 0, max: 1, value: probability, "aria-hidden": "true" });
  return element(
    "li",
    {
      role: "option",
      id: uniqueId("option"),
      "aria-selected": String(token === current),
      "aria-disabled": isChoosable ? null : "true",
    },
    element("bdi", {}, label),
    bar,
    element("span", { class: "percent" }, percentText(probability)),
  );
}

/** Aligns the list with its button, within the window. */
function keepInWindow(popover, button) {
  const maximum = document.documentElement.clientWidth - 8 - popover.offsetWidth;
  const begin = button.getBoundingClientRect().left;
  popover.style.left = `${clamp(begin, 8, Math.max(8, maximum)) - begin}px`;
}
