// What the server says of the model, and who wants to hear when it changes: by this page, another one or the command line.

import { get, post } from "./api.js";
import { lastOnly } from "./dom.js";
import { toast } from "./dialogs.js";
import { common } from "./strings.js";

const PAUSE = 2000;
export const store = { state: null, problem: "" };
const listeners = { change: new Set(), connection: new Set() };

export const onChange = (listener) => listeners.change.add(listener);
export const onConnection = (listener) => listeners.connection.add(listener);
export const revisionOf = (given) => (given ? `${given.server} ${given.revision}` : "");
export const labels = () => (store.state?.classes ?? []).map((one) => one.label);
export const classOf = (label) => store.state?.classes.find((one) => one.label === label);

function connected(problem) {
  if (store.problem === problem) return;
  store.problem = problem;
  for (const listener of listeners.connection) listener(problem);
}

function take(state) {
  const changed = revisionOf(state) !== revisionOf(store.state);
  store.state = state;
  connected("");
  if (changed) for (const listener of listeners.change) listener(state);
}

export const refresh = lastOnly(async () => take(await get("classes")));

async function check() {
  try {
    const now = await get("revision");
    connected("");
    if (revisionOf(now) !== revisionOf(store.state)) await refresh();
  } catch (error) {
    connected(error.status === 401 ? error.message : common.noServer);
  }
}

export async function watch() {
  for (;;) {
    if (!document.hidden) await check();
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, PAUSE);
      document.addEventListener("visibilitychange", () => { clearTimeout(timer); resolve(); }, { once: true });
    });
  }
}

// A change that answers with the new state.
export async function change(path, body, text) {
  take(await post(path, body));
  if (text) toast(text, [common.undo, undo]);
}

// Wraps what a person starts, so that a failure is said and nothing else breaks.
export const tried = (work) => async (...given) => {
  try {
    return await work(...given);
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message);
    return undefined;
  }
};

export const undo = tried(async (steps = 1) => {
  take(await post(`undo?steps=${Number(steps) || 1}`));
  toast(common.undone, [common.redo, redo]);
});
export const redo = tried(async (steps = 1) => {
  take(await post(`redo?steps=${Number(steps) || 1}`));
  toast(common.redone, [common.undo, undo]);
});
