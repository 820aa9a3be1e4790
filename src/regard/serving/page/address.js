// The state of the page as the fragment of its URL, and back: a link reproduces the view.

const PANEL_FIELDS = ["layer", "head", "rank", "step"]; // numbers; each of the two panels has its own
const ONE_BASED = ["layer", "head", "rank"]; // in the URL; zero-based in the state

/** { text, runs, beam, penalty, view, panels: [{ attention, layer, head, rank, step, prefix }, …] }; null: not in the URL. */
export function parseFragment(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    text: fields.get("text"),
    runs: [fields.get("run"), fields.get("other")],
    beam: parseInteger(fields.get("beam"), 1),
    penalty:
      fields.get("penalty") && Number.isFinite(Number(fields.get("penalty"))) ? Number(fields.get("penalty")) : null,
    view: fields.get("view"),
    panels: ["", "2"].map((suffix) => ({
      ...Object.fromEntries(PANEL_FIELDS.map((name) => [name, parseIndex(name, fields.get(name + suffix))])),
      attention: fields.get(`attention${suffix}`),
      prefix: fields.getAll(`prefix${suffix}`),
    })),
  };
}

export function formatFragment({ text, runs, beam, penalty, view, panels }) {
  const fields = new URLSearchParams();
  const add = (name, value) => value !== null && value !== "" && fields.append(name, value);
  add("text", text);
  add("run", runs[0]);
  add("other", runs[1] ?? null);
  add("beam", beam === 1 ? null : beam);
  add("penalty", penalty);
  add("view", view === "map" ? null : view);
  panels.forEach((panel, index) => {
    const suffix = index ? String(index + 1) : "";
    add(`attention${suffix}`, panel.attention === "source" ? null : panel.attention);
    for (const name of PANEL_FIELDS) {
      const isDefault = panel[name] === null || (name === "rank" && panel.rank === 0);
      if (!isDefault) add(name + suffix, panel[name] + (ONE_BASED.includes(name) ? 1 : 0));
    }
    for (const token of panel.prefix) fields.append(`prefix${suffix}`, token);
  });
  return `#${fields}`;
}

/** The access token in the URL's fragment, or null. It is removed from the URL, so that copied links do not have it. */
export function takeToken(location, history) {
  const fields = new URLSearchParams(location.hash.slice(1));
  const token = fields.get("token");
  if (token === null) return null;
  fields.delete("token");
  history.replaceState(null, "", `${location.pathname}${location.search}#${fields}`);
  return token;
}

function parseIndex(name, text) {
  const base = ONE_BASED.includes(name) ? 1 : 0;
  const number = parseInteger(text, base);
  return number === null ? null : number - base;
}

function parseInteger(text, minimum) {
  const number = Number(text);
  return text && Number.isInteger(number) && number >= minimum ? number : null;
}
