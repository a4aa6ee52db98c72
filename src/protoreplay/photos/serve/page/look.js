// Look: the map, the confusions, the classes with what can be done to them, the history.

import { call, make, onChange, percent, plural, question, size, tellChange, toast, tried, undo } from "./base.js";

const place = (id) => document.getElementById(id);

function drawn(tag, given, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(given)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

let drawnMap;

function drawMap(map) {
  drawnMap = map;
  // In the page's own pixels, so that words have their usual size on a phone.
  const width = Math.min(800, document.documentElement.clientWidth - 64);
  const [height, edge] = [Math.max(0.6 * width, 260), width / 10];
  if (!map.classes.length) {
    place("map").replaceChildren(make("p", { textContent: "Nothing is learned yet." }));
    place("map-caption").textContent = "";
    return;
  }
  const reach = (axis) => map.classes.flatMap((one) => [
    one[axis] - 2 * one[`spread_${axis}`], one[axis] + 2 * one[`spread_${axis}`], ...one.photos.map((photo) => photo[axis === "x" ? 0 : 1])]);
  const [xs, ys] = [reach("x"), reach("y")];
  const middle = (all) => (Math.min(...all) + Math.max(...all)) / 2;
  const span = (all) => Math.max(...all) - Math.min(...all) || 1e-9;
  // One scale for both axes: distances on the map are to be compared.
  const scale = Math.min((width - 2 * edge) / span(xs), (height - 2 * edge) / span(ys), 1e6);
  const x = (value) => width / 2 + (value - middle(xs)) * scale;
  const y = (value) => height / 2 - (value - middle(ys)) * scale;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Map of ${plural(map.classes.length, "class")}` });
  const at = new Map(map.classes.map((one) => [one.label, one]));
  for (const pair of map.confusions.filter((one) => one.share >= 0.03)) {
    const [one, other] = [at.get(pair.one), at.get(pair.other)];
    svg.append(drawn("line", { class: "confused", x1: x(one.x), y1: y(one.y), x2: x(other.x), y2: y(other.y), "stroke-width": 1 + 12 * pair.share }));
  }
  for (const one of map.classes) {
    svg.append(drawn("ellipse", { class: "spread", cx: x(one.x), cy: y(one.y), rx: Math.max(4, 2 * one.spread_x * scale), ry: Math.max(4, 2 * one.spread_y * scale) }));
    for (const photo of one.photos) svg.append(drawn("circle", { class: "photo", cx: x(photo[0]), cy: y(photo[1]), r: 2.5 }));
  }
  for (const one of map.classes) {
    svg.append(drawn("circle", { class: "mean", cx: x(one.x), cy: y(one.y), r: 5 }));
    const end = x(one.x) > width * 0.7;
    const name = one.label.length > 24 ? `${one.label.slice(0, 23)}…` : one.label;
    svg.append(drawn("text", { x: x(one.x) + (end ? -9 : 9), y: y(one.y) - 9, "text-anchor": end ? "end" : "start" }, name));
  }
  place("map").replaceChildren(svg);
  place("map-caption").textContent =
    `Each class with its prototype, its spread (two standard deviations) and the photos whose features are kept. The map shows ${percent(map.shown)} of ` +
    "the differences between prototypes; lines join classes that will be confused.";
}

function table(head, rows, given = {}) {
  const cells = (tag, row) => row.map((cell, i) => (tag === "th" || i === 0 ? make("th", { scope: tag === "th" ? "col" : "row" }, cell) : make("td", {}, cell)));
  return make("table", given,
    make("thead", {}, make("tr", {}, ...cells("th", head))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells("td", row)))));
}

function showConfusions(pairs) {
  const rows = pairs.slice(0, 20).map((pair) => [`${pair.one} and ${pair.other}`, percent(pair.share)]);
  place("confusions").replaceChildren(
    rows.length ? table(["Classes", "Photos taken for the other, if only these two compete"], rows) : make("p", { textContent: "Nothing, as far as can be told." }));
}

const change = (path, text) => tried(async (body) => {
  await call(path, body);
  await tellChange();
  toast(text(body), ["Undo", undo]);
});
const renamed = change("rename", (body) => `${body.label} is ${body.new} now.`);
const united = change("unite", (body) => `${body.label} is part of ${body.into} now.`);
const forgotten = change("forget", (body) => `${body.label} is forgotten.`);

function actions(label, others) {
  const button = (text, onclick) => make("button", { type: "button", textContent: text, "aria-label": `${text} ${label}`, onclick });
  const row = make("div", { className: "row" });
  row.append(button("Rename", async () => {
    const name = await question(`Another name for “${label}”`, "Rename", { field: "Name", value: label });
    if (name && name !== label) await renamed({ label, new: name });
  }));
  if (others.length) row.append(button("Unite", async () => {
    const into = await question(`Put the photos of “${label}” into another class`, "Unite", { choice: "Into", options: others });
    if (into) await united({ label, into });
  }));
  row.append(button("Forget", async () => {
    const sure = await question(`Forget “${label}”? Its photos, numbers and name leave the file. Undo works until the server stops.`, "Forget");
    if (sure) await forgotten({ label });
  }));
  return row;
}

function showClasses(state) {
  const names = state.classes.map((one) => one.label);
  const rows = state.classes.map((one) => [
    one.label,
    `${plural(one.photos, "photo")}, ${size(Object.values(one.kept).reduce((sum, part) => sum + part, 0))} kept`,
    actions(one.label, names.filter((name) => name !== one.label)),
  ]);
  place("classes").replaceChildren(rows.length ? table(["Class", "Photos", "Change"], rows, { className: "stacked" }) : make("p", { textContent: "None yet." }));
}

const ACTIONS = { learn: "Learned", forget: "Forgot", rename: "Renamed to", unite: "United into", merge: "Merged models" };

function showHistory(events, undoable) {
  const rows = events.toReversed().slice(0, 100).map((event) => {
    const classes = Object.entries(event.classes).map(([name, count]) => `${name} (${plural(count, "photo")})`);
    return [new Date(1000 * event.time).toLocaleString(), `${ACTIONS[event.action] ?? event.action} ${classes.join(", ") || "a class that is gone"}`];
  });
  const button = make("button", { type: "button", textContent: "Undo the last change", disabled: !undoable, onclick: undo });
  place("history").replaceChildren(button, rows.length ? table(["When", "What"], rows) : make("p", { textContent: "Nothing was taught yet." }));
}

async function show() {
  const [state, map, events] = await Promise.all([call("classes"), call("map"), call("history")]);
  drawMap(map);
  showConfusions(map.confusions);
  showClasses(state);
  showHistory(events, state.undoable);
}

export function start() {
  onChange(tried(show));
  addEventListener("resize", () => drawnMap && drawMap(drawnMap));
}
