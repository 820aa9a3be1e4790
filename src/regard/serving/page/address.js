// What is looked at, as the fragment of an address, and back: a link reproduces the view.

const OWN = ["layer", "head", "rank", "step"]; // what each of two panels has for itself
const COUNTED_FROM_ONE = ["layer", "head", "rank"]; // as people do

/** { text, runs, beam, penalty, view, panels: [{ layer, head, rank, step, prefix }, …] }; null: not said. */
export function readAddress(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    text: fields.get("text"),
    runs: [fields.get("run"), fields.get("other")],
    beam: wholeNumber(fields.get("beam"), 1),
    penalty:
      fields.get("penalty") && Number.isFinite(Number(fields.get("penalty"))) ? Number(fields.get("penalty")) : null,
    view: fields.get("view"),
    panels: ["", "2"].map((suffix) => ({
      ...Object.fromEntries(OWN.map((name) => [name, ownNumber(name, fields.get(name + suffix))])),
      prefix: fields.getAll(`prefix${suffix}`),
    })),
  };
}

export function writeAddress({ text, runs, beam, penalty, view, panels }) {
  const fields = new URLSearchParams();
  const add = (name, value) => value !== null && value !== "" && fields.append(name, value);
  add("text", text);
  add("run", runs[0]);
  add("other", runs[1] ?? null);
  add("beam", beam === 1 ? null : beam);
  add("penalty", penalty);
  add("view", view === "map" ? null : view);
  panels.forEach((panel, number) => {
    const suffix = number ? String(number + 1) : "";
    for (const name of OWN) {
      const isUsual = panel[name] === null || (name === "rank" && panel.rank === 0);
      if (!isUsual) add(name + suffix, panel[name] + (COUNTED_FROM_ONE.includes(name) ? 1 : 0));
    }
    for (const token of panel.prefix) fields.append(`prefix${suffix}`, token);
  });
  return `#${fields}`;
}

/** A token in the address, as a link may bring it once: it is taken out, so that nobody passes it on. */
export function takeToken(location, history) {
  const fields = new URLSearchParams(location.hash.slice(1));
  const token = fields.get("token");
  if (token === null) return null;
  fields.delete("token");
  history.replaceState(null, "", `${location.pathname}${location.search}#${fields}`);
  return token;
}

function ownNumber(name, text) {
  const fromOne = COUNTED_FROM_ONE.includes(name) ? 1 : 0;
  const number = wholeNumber(text, fromOne);
  return number === null ? null : number - fromOne;
}

function wholeNumber(text, least) {
  const number = Number(text);
  return text && Number.isInteger(number) && number >= least ? number : null;
}
