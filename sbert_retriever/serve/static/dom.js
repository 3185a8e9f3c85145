// Elements from plain values. Text goes in as text: nothing is ever parsed as HTML.

/** An element with properties and children; strings become text nodes. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (key === "class") made.className = value;
    else if (key in made && !key.startsWith("aria-")) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** A text of a document or of a user: its direction follows from its letters. */
export const foreign = (name, text, properties = {}) => element(name, { dir: "auto", ...properties }, text);

/** A bar filled to a share between 0 and 1. */
export function gauge(share, kind = "") {
  const filled = element("span");
  filled.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
  return element("span", { class: `gauge ${kind}`, "aria-hidden": "true" }, filled);
}

export const number = (value, digits = 0) =>
  value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });

export const milliseconds = (value) => `${value < 10 ? number(value, 1) : number(value)} ms`;
