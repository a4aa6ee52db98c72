// Ask: answers with their reasons; a wrong one is corrected with one click, which teaches.

import { call, droppable, form, make, onChange, percent, picture, tellChange, toast, tried, undo } from "./base.js";
import { hasCamera, shoot } from "./camera.js";

const AT_ONCE = 8;
const MOST_BUTTONS = 12;
const box = document.getElementById("ask-drop");
const answers = document.getElementById("answers");
const clear = document.getElementById("ask-clear");
let known = [];
let numbered = 0;

async function ask(photos) {
  const places = photos.map(() => make("article", { className: "card", "aria-busy": "true", textContent: "Looking …" }));
  answers.prepend(...places);
  clear.hidden = false;
  for (let from = 0; from < photos.length; from += AT_ONCE) {
    const some = photos.slice(from, from + AT_ONCE);
    let given;
    try {
      given = (await call("predict", form(some))).answers;
    } catch (error) {
      given = some.map(() => ({ error: error.message, choices: [] }));
    }
    given.forEach((answer, i) => fill(places[from + i], some[i], answer));
  }
}

function fill(place, photo, answer) {
  const number = (place.dataset.number ||= String(++numbered));
  place.setAttribute("aria-busy", "false");
  place.className = "card answer";
  const title = answer.error ? "Not answered" : answer.label ?? "I don't know";
  const about = make("div", {}, make("h2", { textContent: title }));
  place.setAttribute("aria-label", `Photo ${number}: ${title}`);
  place.replaceChildren(picture(photo, `photo ${number}`), about);
  if (answer.error) {
    about.append(make("p", { className: "warn", textContent: answer.error }));
    return;
  }
  about.append(bars(answer), ...reasons(answer), correction(place, photo, answer));
}

function bars(answer) {
  const rows = answer.choices.flatMap((choice) => [
    make("span", { textContent: choice.label }),
    make("progress", { max: 1, value: choice.probability, "aria-label": `Probability of ${choice.label}` }),
    make("span", { textContent: percent(choice.probability) }),
  ]);
  return make("div", { className: "bars" }, ...rows);
}

function reasons(answer) {
  const far = answer.choices.map((choice) => `${choice.distance.toFixed(1)} from ${choice.label}`).join(", ");
  const strange = answer.label === null ? "It is further from every class than photos of a class are; the bars say which it would be if it had to be one. " : "";
  const parts = [make("p", { className: "soft", textContent: `${strange}Distances: ${far} (1 is typical of a photo of the class).` })];
  if (answer.nearest) {
    parts.push(make("p", { className: "why soft" },
      make("img", { src: answer.nearest.image, alt: `kept photo of ${answer.nearest.label}` }),
      `The kept photo most like it is of ${answer.nearest.label}.`));
  }
  return parts;
}

function correction(place, photo, answer) {
  const teach = tried(async (label) => {
    if (!label) throw new Error("Name the class first.");
    place.setAttribute("aria-busy", "true");
    try {
      const lesson = await call("learn", form([photo], { label }));
      await tellChange();
      fill(place, photo, (await call("predict", form([photo]))).answers[0]);
      toast(`Learned as ${label}. ${lesson.warnings.join(" ")}`, lesson.learned ? ["Undo", undo] : undefined);
    } finally {
      place.setAttribute("aria-busy", "false");
    }
  });
  const likely = answer.choices.map((choice) => choice.label);
  const names = [...likely, ...known.filter((name) => !likely.includes(name))].filter((name) => name !== answer.label);
  const buttons = names.slice(0, MOST_BUTTONS).map((name) =>
    make("button", { type: "button", textContent: name, "aria-label": `It is ${name}`, onclick: () => teach(name) }));
  const other = make("input", { name: "other", "aria-label": "It is another class", placeholder: "another class", maxLength: 200, autocomplete: "off" });
  const typed = make("form", { className: "row" }, other, make("button", { textContent: "Teach" }));
  typed.onsubmit = (event) => {
    event.preventDefault();
    teach(other.value.trim());
  };
  const lead = answer.label === null ? "It is" : "Wrong? It is";
  return make("div", { role: "group", "aria-label": "Correct the answer" }, make("div", { className: "row" }, make("span", { textContent: lead }), ...buttons), typed);
}

export function start() {
  const take = tried(ask);
  droppable(box, take);
  const input = box.querySelector("input");
  input.onchange = () => {
    take([...input.files]);
    input.value = "";
  };
  const camera = box.querySelector(".camera");
  camera.hidden = !hasCamera;
  camera.onclick = () => shoot(take);
  clear.onclick = () => {
    answers.replaceChildren();
    clear.hidden = true;
  };
  onChange(tried(async () => {
    known = (await call("classes")).classes.map((one) => one.label);
  }));
}
