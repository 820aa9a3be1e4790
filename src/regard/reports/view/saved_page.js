// The saved page: panels with the data that it contains. Without a server, tokens cannot be forced.

import { element } from "./elements.js";
import { fileName, save } from "./downloads.js";
import { highlightTogether, initialChoice, Panel } from "./panel.js";

const pageSource = `<!DOCTYPE html>\n${document.documentElement.outerHTML}`; // before anything is drawn

function showSavedPage({ title, views, state }) {
  const panels = views.map(({ name, about }, number) => {
    const panel = new Panel(name, about, initialChoice({ view: state?.view, ...state?.panels?.[number] }), {
      onForce: null,
      onChoice: () => {},
      onView: (view) => panels.forEach((each) => each.open(view)),
      onHighlight: (source) => highlightTogether(panels, panel, source),
    });
    return panel;
  });
  document.title = title ? `${title} – Regard` : "Regard";
  const heading = document.getElementById("source");
  heading.textContent = title;
  heading.hidden = !title;
  document.getElementById("panels").append(...panels.map((panel) => panel.node));
  const nameOf = ({ translation }) => title || translation.text; // for file names
  panels.forEach((panel, number) =>
    panel.show(views[number].translation, nameOf(views[number]), state?.panels?.[number]?.forced),
  );
  const names = [...views.map((view) => view.name), nameOf(views[0])];
  const saveThisPage = () => save(new Blob([pageSource], { type: "text/html" }), fileName(names, "html"));
  document
    .getElementById("actions")
    .append(element("button", { type: "button", onclick: saveThisPage }, "Save this page"));
}

showSavedPage(JSON.parse(document.getElementById("data").textContent));
