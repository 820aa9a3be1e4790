// What the model could have said in place of a token: a list that opens below it.

import { clamp, element, freshId } from "./elements.js";
import { percentText } from "./wording.js";

/** Opens the list below `button`. `onChoose(token)` is null where there is nobody to ask for another translation. */
export function openAlternatives(button, current, alternatives, onChoose) {
  const options = alternatives.map((alternative) => optionOf(alternative, current, onChoose !== null));
  const hint = element(
    "p",
    { class: "hint" },
    onChoose ? "Choose one, and the rest is translated again." : "What else the model might have said.",
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

  const close = () => button.focus(); // the list goes when it loses the focus
  const choose = () => {
    close();
    if (onChoose) onChoose(alternatives[active].token);
  };
  const activate = (place) => {
    active = clamp(place, 0, options.length - 1);
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
    option.addEventListener("mousedown", (event) => event.preventDefault()); // the list stays for the click
    option.addEventListener("click", () => (activate(number), choose()));
  });

  button.setAttribute("aria-expanded", "true");
  button.parentElement.append(popover);
  keepInSight(popover, button);
  list.focus({ preventScroll: true });
  activate(active);
}

function optionOf({ token, label, probability }, current, isChoosable) {
  const bar = element("meter", { min: 0, max: 1, value: probability, "aria-hidden": "true" });
  return element(
    "li",
    {
      role: "option",
      id: freshId("option"),
      "aria-selected": String(token === current),
      "aria-disabled": isChoosable ? null : "true",
    },
    element("bdi", {}, label),
    bar,
    element("span", { class: "percent" }, percentText(probability)),
  );
}

/** The list begins where its button does, but never leaves the window. */
function keepInSight(popover, button) {
  const room = document.documentElement.clientWidth - 8 - popover.offsetWidth;
  const begin = button.getBoundingClientRect().left;
  popover.style.left = `${clamp(begin, 8, Math.max(8, room)) - begin}px`;
}
