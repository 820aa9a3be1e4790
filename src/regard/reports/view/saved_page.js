// The saved page: panels from the data that it contains. There is no server, so no other token can be chosen.

import { element } from "./elements.js";
import { fileName, save } from "./downloads.js";
import { firstChoice, lightTogether, Panel } from "./panel.js";

const itself = `<!DOCTYPE html>\n${document.documentElement.outerHTML}`; // before anything is drawn

function showSavedPage({ title, views, state }) {
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
  const heading = document.getElementById("source");
  heading.textContent = title;
  heading.hidden = !title;
  document.getElementById("panels").append(...panels.map((panel) => panel.node));
  const nameOf = ({ answer }) => title || answer.text; // for files
  panels.forEach((panel, number) =>
    panel.show(views[number].answer, nameOf(views[number]), state?.panels?.[number]?.forced),
  );
  const names = [...views.map((view) => view.name), nameOf(views[0])];
  const saveItself = () => save(new Blob([itself], { type: "text/html" }), fileName(names, "html"));
  document
    .getElementById("actions")
    .append(element("button", { type: "button", onclick: saveItself }, "Save this page"));
}

showSavedPage(JSON.parse(document.getElementById("data").textContent));
