// Photos go up in portions, are looked at, and are learned once it was said what they do.

import { ApiError, get, photoForm, post, remove } from "./api.js";
import { button, el, namesOf } from "./dom.js";
import { openDialog, toast } from "./dialogs.js";
import { portions } from "./photos.js";
import { refresh, undo } from "./store.js";
import { common, model as modelText, teach as text } from "./strings.js";

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
let busy = false;

// Other pages may be teaching: then this one waits for its turn.
async function patiently(path, form, signal) {
  for (let wait = 200; ; wait = Math.min(2 * wait, 2000)) {
    try {
      return await post(path, form(), { signal });
    } catch (error) {
      if (error.status !== 429) throw error;
      await pause(wait);
    }
  }
}

async function sent(photos, signal, tell) {
  const some = portions(photos);
  let lesson = null;
  const id = () => lesson.id;
  try {
    for (const [number, portion] of some.entries()) {
      const fields = { label: portion[0].label, more: number < some.length - 1 };
      const form = () => photoForm(portion.map((photo) => photo.file), fields);
      lesson = await patiently(lesson ? `lessons/${id()}/photos` : "lessons", form, signal);
      tell(lesson.done);
    }
    while (lesson.state === "looking") {
      await pause(100);
      lesson = await get(`lessons/${id()}`, { signal });
      tell(lesson.done);
    }
  } catch (error) {
    if (lesson) remove(`lessons/${id()}`).catch(() => {});
    throw error;
  }
  return lesson;
}

// The warnings name photos by their number in the lesson: here, by their files.
const named = (warning, photos) => warning.replace(/^photo (\d+)/, (whole, number) => photos[number - 1]?.name ?? whole);

function decided(lesson, photos) {
  return new Promise((resolve) => {
    let result = false;
    const warnings = lesson.warnings.map((warning) => el("li", { text: named(warning, photos), dir: "auto" }));
    const content = el("div", { class: "stack" },
      el("ul", { class: "warnings" }, warnings),
      el("p", { class: "soft", text: text.beforeHint }),
      el("div", { class: "row end" },
        button(text.dont, () => dialog.close(), { class: "quiet" }),
        button(text.anyway, () => { result = true; dialog.close(); }, { class: "strong" })));
    const dialog = openDialog(text.before, content, { onclose: () => resolve(result) });
  });
}

// Teaches photos (each with its `label`); true once they are learned. Photos that cannot be read get a `problem`.
export async function teachPhotos(photos, { signal, tell = () => {} } = {}) {
  if (busy) throw new ApiError(text.busy, 0);
  busy = true;
  try {
    const lesson = await sent(photos, signal, tell);
    for (const one of lesson.unread) photos[one.photo - 1].problem = one.error;
    if (lesson.state === "failed") throw new ApiError(lesson.error, 422);
    // Photos that are almost the same do no harm: it is enough to say so afterwards.
    const hints = lesson.hints.join(" ");
    if (lesson.warnings.length > lesson.hints.length && !(await decided(lesson, photos))) {
      await remove(`lessons/${lesson.id}`);
      toast(text.notTaught);
      return false;
    }
    const kept = await post(`lessons/${lesson.id}/keep`);
    await refresh();
    const names = namesOf([...new Set(photos.map((photo) => photo.label))], 3, modelText.andMore);
    const told = text.learned(kept.learned, names) + (kept.known ? text.known(kept.known) : "") + (kept.unread.length ? text.unread(kept.unread.length) : "") + (hints && ` ${text.alike(hints)}`);
    toast(told, kept.learned ? [common.undo, undo] : undefined);
    return true;
  } finally {
    busy = false;
  }
}
