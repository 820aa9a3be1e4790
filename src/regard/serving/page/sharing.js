// Passing on what is seen: a link, or a page that needs no server.

import { element } from "../view/elements.js";
import { fileName, save } from "../view/downloads.js";

/** Copies the address. Where a page may not do that, it offers the address to be copied by hand. */
export async function copyLink(status) {
  try {
    await navigator.clipboard.writeText(location.href);
    status.replaceChildren("Link copied.");
  } catch {
    const address = element("input", { readonly: true, "aria-label": "link to this view", value: location.href });
    status.replaceChildren("Copy this link: ", address);
    address.select();
  }
}

/** The page as one file: the template that the server keeps, with the answers in it, beams and all if they can be had. */
export async function savePage(view, readings, withBeam, status) {
  const ready = readings.filter(({ panel }) => panel.answer);
  if (!ready.length) return status.replaceChildren("There is no translation to save.");
  const title = ready[0].panel.text;
  const views = ready.map(async (reading) => ({
    name: reading.run.name,
    about: reading.about,
    answer: await withBeam(reading).catch(() => reading.panel.answer),
  }));
  const data = {
    title,
    views: await Promise.all(views),
    state: { view, panels: ready.map(({ panel }) => ({ ...panel.choice, forced: panel.forced })) },
  };
  const response = await fetch("static/frozen.html").catch(() => null);
  if (!response?.ok) return status.replaceChildren("The page could not be fetched from the server.");
  const page = (await response.text()).replace("REGARD_DATA", () => harmlessJson(data));
  save(new Blob([page], { type: "text/html" }), fileName([...ready.map(({ run }) => run.name), title], "html"));
  status.replaceChildren("Page saved.");
}

/** JSON that cannot end the script it stands in. */
function harmlessJson(data) {
  return JSON.stringify(data).replace(
    /[<>&\u2028\u2029]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
