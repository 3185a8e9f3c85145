// The search box: results as one types, the stages and what they took, the trade-off.

import { ask, trouble } from "./api.js";
import { byId, element, foreign, gauge, milliseconds, number } from "./dom.js";

const BUDGETS = [null, 50, 100, 200, 400, 800, 1600];
const STAGES = ["wait", "encode", "search", "rerank"];
const TYPING_MS = 120;
const SETTLED_MS = 450;
const LONG = 420;

let running = null;
let timers = [];

export function startSearch() {
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    soon(0, true);
  });
  byId("query").addEventListener("input", () => {
    soon(TYPING_MS, false);
    if (budget() !== null) timers.push(setTimeout(() => search(true), SETTLED_MS));
  });
  byId("depth").addEventListener("input", () => {
    sayDepth();
    soon(TYPING_MS, true);
  });
  byId("hits").addEventListener("keydown", walk);
  document.addEventListener("keydown", focusOnSlash);
  sayDepth();
}

const budget = () => BUDGETS[Number(byId("depth").value)];

function sayDepth() {
  const said = budget() === null ? "vectors alone" : `cross-encoder within ${budget()} ms`;
  byId("depth-said").textContent = said;
  byId("depth").setAttribute("aria-valuetext", said);
}

function soon(ms, deep) {
  timers.forEach(clearTimeout);
  timers = [setTimeout(() => search(deep), ms)];
}

/** Search; while one types, by vectors alone. */
async function search(deep) {
  const query = byId("query").value.trim();
  running?.abort();
  if (!query) return clear();
  running = new AbortController();
  const mine = running;
  const limit = deep ? budget() : null;
  const asked = { query, k: 10 };
  if (limit === null) asked.profile = "fast";
  else asked.budget_ms = limit;
  byId("searching").classList.add("busy");
  try {
    const answer = await ask("/search", asked, { signal: mine.signal });
    if (mine !== running) return undefined;
    trouble(null);
    show(answer, limit);
  } catch (error) {
    trouble(error);
  } finally {
    if (mine === running) byId("searching").classList.remove("busy");
  }
  return undefined;
}

function clear() {
  byId("hits").replaceChildren();
  byId("price").hidden = true;
  byId("nothing").hidden = false;
  byId("search-status").textContent = "";
}

function show(answer, limit) {
  byId("nothing").hidden = true;
  byId("price").hidden = false;
  showStages(answer.timings_ms, limit);
  showDepth(answer);
  const scales = scalesOf(answer.hits);
  const place = cards().indexOf(document.activeElement.closest(".hit"));
  byId("hits").replaceChildren(...answer.hits.map((hit) => element("li", {}, card(hit, scales))));
  if (place >= 0) (cards()[place] ?? byId("query")).focus();
  byId("search-status").textContent = answer.hits.length
    ? `${answer.hits.length} results in ${milliseconds(answer.timings_ms.total)}`
    : "Nothing found";
}

function showStages(timings, limit) {
  const full = Math.max(timings.total, limit ?? 0, 1);
  const parts = STAGES.filter((stage) => (timings[stage] ?? 0) >= 0.5);
  byId("stages").replaceChildren(
    ...parts.map((stage) => {
      const part = element("span", { class: stage });
      part.style.width = `${(100 * timings[stage]) / full}%`;
      return part;
    }),
  );
  byId("stage-list").replaceChildren(
    ...parts.map((stage) =>
      element("li", {}, element("i", { class: stage }), stage, element("b", {}, milliseconds(timings[stage]))),
    ),
    element("li", { class: "sum" }, "all", element("b", {}, milliseconds(timings.total))),
  );
}

function showDepth({ candidates, rescored }) {
  const dots = Array.from({ length: candidates }, (_, n) => element("i", { class: n < rescored ? "read" : "" }));
  byId("dots").replaceChildren(...dots);
  byId("depth-found").textContent = candidates
    ? `the cross-encoder read ${rescored} of ${candidates} candidates`
    : "in the order of the vectors; no cross-encoder";
}

/** Scores of one kind share a scale, from the least to the best of the page. */
function scalesOf(hits) {
  const scales = {};
  const see = (kind, score) => {
    if (score === null || kind === null) return;
    const scale = (scales[kind] ??= { low: Infinity, high: -Infinity });
    scale.low = Math.min(scale.low, score);
    scale.high = Math.max(scale.high, score);
  };
  for (const hit of hits) {
    see(hit.score_kind, hit.score);
    see(hit.first_score_kind, hit.first_score);
    see(hit.rerank_score_kind, hit.rerank_score);
  }
  return scales;
}

function share(scales, kind, score) {
  if (kind === "cosine" || kind === "probability") return score;
  const { low, high } = scales[kind];
  return high > low ? 0.12 + (0.88 * (score - low)) / (high - low) : 1;
}

function score(name, kind, value, scales, style) {
  return element(
    "span",
    { class: "score" },
    gauge(share(scales, kind, value), style),
    element("span", {}, `${name} `, element("b", {}, number(value, 3)), kind === name ? "" : ` ${kind}`),
  );
}

function card(hit, scales) {
  const scores = element("div", { class: "scores" });
  if (hit.first_score !== null) {
    scores.append(score("first", hit.first_score_kind, hit.first_score, scales, "first"));
    if (hit.rerank_score !== null) {
      scores.append(score("cross-encoder", hit.rerank_score_kind, hit.rerank_score, scales, "second"));
    }
    if (hit.rerank_score_kind !== hit.score_kind) {
      scores.append(score("now", hit.score_kind, hit.score, scales, "second"));
    }
  } else {
    scores.append(score(hit.score_kind, hit.score_kind, hit.score, scales, "first"));
  }
  if (hit.cut_short) scores.append(element("span", { class: "note" }, "time was up before its turn"));
  if (hit.fallback) scores.append(element("span", { class: "note" }, hit.fallback));
  return element("article", { class: "hit", tabIndex: 0 }, element("div", {}, ...text(hit.text), scores, tags(hit)));
}

function text(whole) {
  const shown = foreign("p", whole, { class: whole.length > LONG ? "text long" : "text" });
  if (whole.length <= LONG) return [shown];
  const more = element("button", { class: "more", type: "button", "aria-expanded": "false" }, "Show all");
  more.addEventListener("click", () => {
    const cut = shown.classList.toggle("long");
    more.textContent = cut ? "Show all" : "Show less";
    more.setAttribute("aria-expanded", String(!cut));
  });
  return [shown, more];
}

function tags(hit) {
  const pairs = Object.entries(hit.metadata).slice(0, 6);
  const shown = pairs.map(([key, value]) =>
    foreign("span", `${key}: ${typeof value === "object" ? JSON.stringify(value) : value}`, { class: "tag" }),
  );
  if (hit.source) shown.unshift(foreign("span", hit.source, { class: "tag" }));
  return element("div", { class: "tags" }, ...shown);
}

const cards = () => [...byId("hits").querySelectorAll(".hit")];

/** Up and down between results. */
function walk(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const next = cards()[cards().indexOf(document.activeElement.closest(".hit")) + step];
  event.preventDefault();
  (next ?? byId("query")).focus();
}

function focusOnSlash(event) {
  const busy = event.target.closest?.("input, textarea, dialog[open]");
  if (event.key !== "/" || busy || event.ctrlKey || event.metaKey || event.altKey) return;
  if (byId("panel-try").hidden) return;
  event.preventDefault();
  byId("query").focus();
}
