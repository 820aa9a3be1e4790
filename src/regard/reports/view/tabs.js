// Tabs, as the ARIA pattern has them: arrows move between them, and one panel is to be seen.

import { element, freshId } from "./elements.js";

/** { list, panels, select(name), offer(name, isThere) }. `names` maps a tab's name to its title. */
export function createTabs(label, names, onSelect) {
  const keys = Object.keys(names);
  const stem = freshId("tab");
  const tabs = keys.map((key) =>
    element(
      "button",
      {
        type: "button",
        role: "tab",
        id: `${stem}-${key}`,
        "aria-controls": `${stem}-${key}-panel`,
        onclick: () => onSelect(key),
      },
      names[key],
    ),
  );
  const panels = Object.fromEntries(
    keys.map((key) => [
      key,
      element("div", { role: "tabpanel", id: `${stem}-${key}-panel`, "aria-labelledby": `${stem}-${key}` }),
    ]),
  );
  const list = element("div", { role: "tablist", "aria-label": label }, tabs);
  list.addEventListener("keydown", (event) => {
    const there = tabs.filter((tab) => !tab.hidden);
    const place = there.indexOf(document.activeElement);
    const targets = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: there.length - 1 };
    if (!(event.key in targets)) return;
    const target = there[(targets[event.key] + there.length) % there.length];
    event.preventDefault();
    target.focus();
    onSelect(keys[tabs.indexOf(target)]);
  });
  const select = (name) => {
    keys.forEach((key, place) => {
      tabs[place].setAttribute("aria-selected", String(key === name));
      tabs[place].tabIndex = key === name ? 0 : -1;
      panels[key].hidden = key !== name;
    });
  };
  const offer = (name, isThere) => (tabs[keys.indexOf(name)].hidden = !isThere);
  return { list, panels, select, offer };
}
