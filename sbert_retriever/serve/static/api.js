// Requests to the service; asks for a key where one is wanted.

import { byId } from "./dom.js";

const KEPT = "sbert-retriever-key";
let asking = null;

/** What a path answers; an Error with the service's own sentence where it refuses. */
export async function ask(path, body, { signal } = {}) {
  const headers = {};
  const key = sessionStorage.getItem(KEPT);
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    credentials: "omit",
  });
  if (answer.status === 401) {
    await askForKey(key !== null && key === sessionStorage.getItem(KEPT));
    return ask(path, body, { signal });
  }
  if (answer.ok) return answer.json();
  throw new Error(await reason(answer));
}

async function reason(answer) {
  try {
    return (await answer.json()).error.message;
  } catch {
    return `the service answered ${answer.status}`;
  }
}

function askForKey(refused) {
  asking ??= new Promise((resolve, reject) => {
    const dialog = byId("key-dialog");
    byId("key-reason").textContent = refused
      ? "That key is not known here."
      : "It is kept in this tab until you close it.";
    byId("key").value = "";
    dialog.returnValue = "";
    dialog.showModal();
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        if (dialog.returnValue !== "given") {
          reject(new Error("An API key is wanted: ask again, or reload the page, to give one."));
          return;
        }
        sessionStorage.setItem(KEPT, byId("key").value.trim());
        resolve();
      },
      { once: true },
    );
  });
  return asking;
}

/** Show what went wrong, or clear it. */
export function trouble(error) {
  const place = byId("trouble");
  if (error && error.name === "AbortError") return;
  place.hidden = !error;
  place.textContent = error ? String(error.message ?? error) : "";
}
