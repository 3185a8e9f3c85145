// The paper made plain: what n sentences cost both ways, and three poolings of typed sentences.

import { ask, trouble } from "./api.js";
import { byId, element, foreign, number } from "./dom.js";

const EXAMPLES = [
  "A man is playing a guitar on stage.",
  "Someone performs music on a string instrument.",
  "The bank raised its interest rates again.",
  "Nobody is playing the guitar.",
];
const POOLINGS = [["mean", "Mean"], ["max", "Max"], ["cls", "CLS"]];
const UNITS = [[1, "s"], [60, "min"], [3600, "hours"], [86400, "days"], [31557600, "years"]];
const TICKS = [[0.001, "1 ms"], [1, "1 s"], [60, "1 min"], [3600, "1 h"], [86400, "1 day"], [31557600, "1 year"], [315576000000, "10,000 years"]];
const LONGEST_S = 31557600 * 20000;

let report = null;
let timer = null;

export function startPaper(facts) {
  byId("n").addEventListener("input", draw);
  byId("measure").addEventListener("click", measure);
  makeSentences();
  makeTicks();
  draw();
  if (facts.efficiency_known) measure();
}

/** The first time the tab is opened. */
export function openPaper() {
  if (!byId("poolings").children.length) pool();
}

const sentences = () => Math.round(10 ** Number(byId("n").value));

function draw() {
  const n = sentences();
  const pairs = (n * (n - 1)) / 2;
  byId("n-said").textContent = number(n);
  byId("n").setAttribute("aria-valuetext", `${number(n)} sentences`);
  byId("cross-passes").textContent = number(pairs);
  byId("bi-passes").textContent = number(n);
  if (!report) return;
  const cross = (report.cross_encoder_s / report.pairs) * pairs;
  const bi = (report.encode_s / report.sentences) * n + (report.compare_s / report.pairs) * pairs;
  byId("cross-time").textContent = duration(cross);
  byId("bi-time").textContent = duration(bi);
  byId("cross-run").style.width = place(cross);
  byId("bi-run").style.width = place(bi);
}

function duration(seconds) {
  if (seconds < 1) return `${number(seconds * 1000, seconds < 0.01 ? 1 : 0)} ms`;
  const [size, unit] = UNITS.filter(([least]) => seconds >= 1.5 * least || least === 1).at(-1);
  const value = seconds / size;
  return `${number(value, value < 10 ? 1 : 0)} ${unit}`;
}

/** A place on the logarithmic scale, from a millisecond on. */
function place(seconds) {
  const share = Math.log(Math.max(seconds, 0.001) / 0.001) / Math.log(LONGEST_S / 0.001);
  return `${100 * Math.min(1, Math.max(0, share))}%`;
}

function makeTicks() {
  byId("ticks").replaceChildren(
    ...TICKS.map(([seconds, name]) => {
      const tick = element("span", {}, name);
      tick.style.left = place(seconds);
      return tick;
    }),
  );
}

async function measure() {
  const button = byId("measure");
  button.disabled = true;
  button.textContent = "Measuring …";
  try {
    report = await ask("/paper/efficiency");
    trouble(null);
    byId("scale").hidden = false;
    button.hidden = true;
    byId("measured").textContent =
      `Measured here: ${number(report.sentences)} sentences and ${number(report.sampled_pairs)} pairs; the rest is arithmetic. ` +
      `${report.bi_encoder}; ${report.cross_encoder}; ${report.machine}.`;
    draw();
  } catch (error) {
    trouble(error);
  } finally {
    button.disabled = false;
    button.textContent = "Measure on this machine";
  }
}

function makeSentences() {
  const form = byId("pooling-form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    pool();
  });
  EXAMPLES.forEach((sentence, n) => {
    const field = element("input", { type: "text", dir: "auto", value: sentence, maxLength: 500, "aria-label": `Sentence ${n + 1}` });
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(pool, 350);
    });
    form.append(element("label", {}, element("span", { "aria-hidden": "true" }, letter(n)), field));
  });
}

const letter = (n) => String.fromCharCode(65 + n);

async function pool() {
  const fields = [...byId("pooling-form").querySelectorAll("input")];
  const named = fields.map((field, n) => [letter(n), field.value.trim()]).filter(([, text]) => text);
  if (named.length < 2) return;
  try {
    const found = await ask("/paper/pooling", { sentences: named.map(([, text]) => text) });
    trouble(null);
    const names = named.map(([name]) => name);
    byId("poolings").replaceChildren(
      ...POOLINGS.map(([key, name]) => matrix(name, found.cosines[key], names, found.trained_with === key)),
    );
    byId("pooling-note").replaceChildren(
      "Cosines, by ", foreign("span", found.model),
      `, which was trained with ${found.trained_with} pooling: the others show what it was not trained for.`,
    );
  } catch (error) {
    trouble(error);
  }
}

function matrix(name, cosines, names, own) {
  const title = element("h3", {}, name, own ? element("span", { class: "badge" }, "as trained") : null);
  const head = element("tr", {}, element("td"), ...names.map((each) => element("th", { scope: "col" }, each)));
  const rows = cosines.map((row, i) =>
    element("tr", {}, element("th", { scope: "row" }, names[i]), ...row.map((value, j) => cell(value, i === j))));
  return element("div", { class: "pooling" }, title, element("table", { class: "matrix" }, element("tbody", {}, head, ...rows)));
}

function cell(value, self) {
  const made = element("td", {}, self ? "·" : value.toFixed(2));
  if (!self) {
    const share = Math.round(100 * Math.min(1, Math.max(0, value)));
    made.style.background = `color-mix(in srgb, var(--encode) ${Math.round(share * 0.75)}%, transparent)`;
  }
  return made;
}
