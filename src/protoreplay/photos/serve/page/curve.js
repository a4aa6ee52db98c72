// A line of shares over photos.

import { svg } from "./dom.js";
import { improve as text, percent } from "./strings.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [480, 220, 52, 40, 16];

export function curve(points, label) {
  const most = points.at(-1).photos;
  const x = (photos) => LEFT + (WIDTH - LEFT - 16) * (photos / most);
  const y = (share) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curve", role: "img", "aria-label": label });
  for (const share of [0, 0.5, 1]) {
    drawn.append(svg("line", { x1: LEFT, x2: WIDTH - 16, y1: y(share), y2: y(share), class: "rule" }),
      svg("text", { x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, percent(share)));
  }
  for (const point of points) drawn.append(svg("text", { x: x(point.photos), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, String(Math.round(point.photos))));
  drawn.append(svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle", class: "axis" }, text.curveX),
    svg("polyline", { points: points.map((point) => `${x(point.photos)},${y(point.share)}`).join(" "), class: "line" }));
  for (const point of points) drawn.append(svg("circle", { cx: x(point.photos), cy: y(point.share), r: 4, class: "dot" }));
  return drawn;
}
