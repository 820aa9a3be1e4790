// The self-contained page: panels from the data that lies in it. It asks nobody, so no other token can be chosen.

import { element } from "./elements.js";
import { fileName, save } from "./downloads.js";
import { firstChoice, lightTogether, Panel } from "./panel.js";

const itself = `<!DOCTYPE html>\n${document.documentElement.outerHTML}`; // before anything is drawn

function showFrozen({ title, views, state }) {
  const panels = views.map(({ name, about }, number) => {
    const panel = new Panel(name, about, firstChoice({ view: state?.view, ...state?.panels?.[number] }), {
      onForce: null,
      onChoice: () => {},
      onView: (view) => panels.forEach((each) => each.open(view)),
      onLight: (source) => lightTogether(panels, panel, source),
    });
    return panel;
  });
  document.title = title ? `${title} – Regard` : "Regard";
  document.getElementById("source").textContent = title;
  document.getElementById("panels").append(...panels.map((panel) => panel.node));
  panels.forEach((panel, number) => panel.show(views[number].answer, title, state?.panels?.[number]?.forced));
  const saveItself = () =>
    save(new Blob([itself], { type: "text/html" }), fileName([...views.map((view) => view.name), title], "html"));
  document
    .getElementById("actions")
    .append(element("button", { type: "button", onclick: saveItself }, "Save this page"));
}

showFrozen(JSON.parse(document.getElementById("data").textContent));
