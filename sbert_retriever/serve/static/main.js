// Puts the page together: what is served, the tabs, and the parts.

import { ask, trouble } from "./api.js";
import { startChat } from "./chat.js";
import { byId, number } from "./dom.js";
import { openPaper, startPaper } from "./paper.js";
import { startSearch } from "./search.js";

const TABS = ["try", "paper"];

function show(name, focus) {
  for (const each of TABS) {
    const chosen = each === name;
    const tab = byId(`tab-${each}`);
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    byId(`panel-${each}`).hidden = !chosen;
    if (chosen && focus) tab.focus();
  }
  if (name === "paper") openPaper();
  history.replaceState(null, "", name === "try" ? location.pathname : `#${name}`);
}

function startTabs() {
  TABS.forEach((name, n) => {
    const tab = byId(`tab-${name}`);
    tab.addEventListener("click", () => show(name, false));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) show(TABS[(n + step + TABS.length) % TABS.length], true);
    });
  });
}

function say(facts) {
  const parts = [];
  if (facts.passages !== null) parts.push(`${number(facts.passages)} passages in “${facts.collection}”`);
  if (facts.faq_entries !== null) parts.push(`${number(facts.faq_entries)} FAQ entries`);
  if (facts.model) parts.push(facts.model);
  byId("facts").textContent = parts.join(" · ");
  byId("version").textContent = `sbert-retriever ${facts.version}`;
}

async function start() {
  startTabs();
  try {
    const facts = await ask("/page/facts");
    say(facts);
    byId("searching").hidden = facts.passages === null;
    byId("chatting").hidden = facts.faq_entries === null;
    byId("panel-try").classList.toggle("single", facts.passages === null || facts.faq_entries === null);
    startSearch();
    startChat(facts);
    startPaper(facts);
    if (location.hash === "#paper") show("paper", false);
    document.body.dataset.ready = "yes";
  } catch (error) {
    trouble(error);
  }
}

start();
