// Tabs that follow the ARIA pattern: arrow keys move between them, and one panel is visible.

import { element, uniqueId } from "./elements.js";

/** { list, panels, select(name), setAvailable(name, isAvailable) }. `names` maps the name of a tab to its title. */
export function createTabs(label, names, onSelect) {
  const keys = Object.keys(names);
  const stem = uniqueId("tab");
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
    const visible = tabs.filter((tab) => !tab.hidden);
    const index = visible.indexOf(document.activeElement);
    const targets = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: visible.length - 1 };
    if (!(event.key in targets)) return;
    const target = visible[(targets[event.key] + visible.length) % visible.length];
    event.preventDefault();
    target.focus();
    onSelect(keys[tabs.indexOf(target)]);
  });
  const select = (name) => {
    keys.forEach((key, index) => {
      tabs[index].setAttribute("aria-selected", String(key === name));
      tabs[index].tabIndex = key === name ? 0 : -1;
      panels[key].hidden = key !== name;
    });
  };
  const setAvailable = (name, isAvailable) => (tabs[keys.indexOf(name)].hidden = !isAvailable);
  return { list, panels, select, setAvailable };
}
