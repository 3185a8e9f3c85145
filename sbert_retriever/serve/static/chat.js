// The FAQ as a conversation: an answer, a list to choose from, or "I don't know".

import { ask, trouble } from "./api.js";
import { byId, element, foreign, gauge, milliseconds, number } from "./dom.js";

const THUMB =
  "M7 10.500v9.500H4v-9.500h3zm0 0 4-7c1.300 0 2.200 1 2 2.300L12.400 9.500H18c1.300 0 2.200 1.200 1.900 2.400l-1.500 6.300c-.200 1-1.100 1.800-2.200 1.800H7";
let last = null;
let takesFeedback = false;

export function startChat(facts) {
  takesFeedback = facts.faq_feedback;
  byId("chat-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = byId("question");
    const question = field.value.trim();
    if (!question) return;
    field.value = "";
    add("me", foreign("div", question, { class: "said" }));
    await answer(question);
    field.focus();
  });
}

async function answer(question) {
  const asked = { question };
  if (byId("follow").checked && last) asked.previous = last;
  const waiting = add("bot", element("div", { class: "said", "aria-busy": "true" }, "…"));
  try {
    const found = await ask("/faq/ask", asked);
    trouble(null);
    // Feedback is on the question as it was looked up: of a follow-up, with the one before.
    waiting.replaceWith(turn(found.question, found));
    last = question;
  } catch (error) {
    waiting.remove();
    trouble(error);
  }
  scroll();
}

function add(who, ...parts) {
  const made = element("div", { class: `turn ${who}` }, ...parts);
  byId("log").append(made);
  scroll();
  return made;
}

function scroll() {
  const log = byId("log");
  log.scrollTop = log.scrollHeight;
}

function turn(question, found) {
  if (found.outcome === "answer") return answered(question, found.entry, found);
  if (found.outcome === "choose" && found.candidates.length) return choice(question, found);
  return unsure(found);
}

function answered(question, entry, found) {
  const said = element("div", { class: "said" }, foreign("p", entry.answer));
  const links = entry.links.filter((link) => /^https?:\/\//i.test(link));
  if (links.length) {
    said.append(element("div", { class: "links" }, ...links.map((link) =>
      element("a", { href: link, rel: "noopener noreferrer", target: "_blank", dir: "auto" }, link))));
  }
  const under = element("div", { class: "under" }, takesFeedback ? thumbs(question, entry.id) : null);
  if (found && found.confidence !== null) under.append(sure(found.confidence));
  if (found) under.append(element("span", {}, milliseconds(found.timings_ms.total)));
  const phrasing = found?.phrasing ?? entry.phrasings[0];
  under.append(element("span", {}, "matched ", foreign("q", phrasing)));
  return element("div", { class: "turn bot" }, said, under);
}

function sure(confidence) {
  return element("span", { class: "sure" }, gauge(confidence), `${number(100 * confidence)} % sure`);
}

function choice(question, found) {
  const list = element("div", { class: "choices" });
  for (const candidate of found.candidates) {
    // A question that is a phrasing of several entries does not tell them apart.
    const shown = found.exact ? candidate.entry.phrasings[0] : candidate.phrasing;
    const button = foreign("button", shown, { type: "button" });
    button.addEventListener("click", () => {
      add("me", foreign("div", shown, { class: "said" }));
      byId("log").append(answered(question, candidate.entry, null));
      scroll();
      byId("question").focus();
    });
    list.append(button);
  }
  return element("div", { class: "turn bot" }, element("div", { class: "said" }, "Did you mean one of these?", list));
}

function unsure(found) {
  const said = element(
    "div",
    { class: "said" },
    element("div", {}, element("strong", {}, "I don’t know."), "No entry of this FAQ is close enough to answer that."),
  );
  const made = element("div", { class: "turn bot unsure" }, said);
  const near = found.candidates.map((each) =>
    element("li", {}, foreign("span", each.phrasing), ` (${number(each.score, 2)} ${each.score_kind})`));
  if (near.length) {
    made.append(element("details", {}, element("summary", {}, "The nearest entries"), element("ul", {}, ...near)));
  }
  return made;
}

function thumbs(question, entry) {
  const made = element("span", { class: "thumbs", role: "group", "aria-label": "Was this right?" });
  for (const [good, name] of [[true, "up"], [false, "down"]]) {
    const label = good ? "It answers my question" : "It does not answer my question";
    const button = element("button", { type: "button", class: name, "aria-label": label, title: label, "aria-pressed": "false" });
    button.append(thumb());
    button.addEventListener("click", () => keep(made, button, { question, entry, good }));
    made.append(button);
  }
  return made;
}

function thumb() {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 24 24");
  picture.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", THUMB);
  picture.append(path);
  return picture;
}

async function keep(group, chosen, said) {
  try {
    await ask("/faq/feedback", said);
    for (const button of group.children) button.setAttribute("aria-pressed", String(button === chosen));
    trouble(null);
  } catch (error) {
    trouble(error);
  }
}
