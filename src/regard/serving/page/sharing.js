// Copying a link to the view, and saving it as a page that needs no server.

import { element } from "../view/elements.js";
import { fileName, save } from "../view/downloads.js";

/** Copies the URL. Where the clipboard is not available, shows it for copying by hand. */
export async function copyLink(status) {
  try {
    await navigator.clipboard.writeText(location.href);
    status.replaceChildren("Link copied.");
  } catch {
    const field = element("input", { readonly: true, "aria-label": "link to this view", value: location.href });
    status.replaceChildren("Copy this link: ", field);
    field.select();
  }
}

/** Saves the view as one HTML file: the server's template with the translations, as complete as the server allows. */
export async function savePage(view, slots, fetchComplete, status) {
  const finished = slots.filter(({ panel }) => panel.translation);
  if (!finished.length) return status.replaceChildren("There is no translation to save.");
  const { text, translation } = finished[0].panel;
  const title = translation.source_image ? "" : text;
  const views = finished.map(async (slot) => ({
    name: slot.run.name,
    about: slot.about,
    translation: await fetchComplete(slot).catch(() => slot.panel.translation),
  }));
  const data = {
    title,
    views: await Promise.all(views),
    state: { view, panels: finished.map(({ panel }) => ({ ...panel.choice, forced: panel.forced })) },
  };
  const response = await fetch("static/frozen.html").catch(() => null);
  if (!response?.ok) return status.replaceChildren("The page could not be fetched from the server.");
  const page = (await response.text()).replace("REGARD_DATA", () => escapedJson(data));
  save(new Blob([page], { type: "text/html" }), fileName([...finished.map(({ run }) => run.name), finished[0].panel.title], "html"));
  status.replaceChildren("Page saved.");
}

/** JSON that cannot end the script element around it. */
function escapedJson(data) {
  return JSON.stringify(data).replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
