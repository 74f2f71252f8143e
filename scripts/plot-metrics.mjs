// Draws metrics.jsonl of training runs as an SVG: losses over updates, and below them word error rates of the validation set.
//   node scripts/plot-metrics.mjs --out docs/curve.svg --title "Ten utterances" LABEL=EXP-DIR/metrics.jsonl ...
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const colours = ["#1f6fb4", "#d0542a", "#3a8f3f", "#7d4fb0", "#a8831c", "#4b5a66"];
const width = 720;
const left = 52;
const right = 12;
const legendHeight = 18;

/**
 * The points of a run. Updates that were made again after a kill count once, as they were made last.
 * @param {string} text metrics.jsonl
 * @returns {{ train: [number, number][], valid: [number, number][], wer: [number, number][] }} updates with losses, and with percent
 */
export function pointsOf(text) {
  const found = { train: new Map(), valid: new Map(), wer: new Map() };
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const { kind, batch, loss, wer } = JSON.parse(line);
    for (const points of Object.values(found)) for (const b of points.keys()) if (b > batch) points.delete(b);
    if (Number.isFinite(loss) && loss > 0) found[kind === "train" ? "train" : "valid"].set(batch, loss);
    if (Number.isFinite(wer)) found.wer.set(batch, 100 * wer);
  }
  return { train: [...found.train], valid: [...found.valid], wer: [...found.wer] };
}

const escapeXml = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const round = (value) => String(Math.round(value * 10) / 10);

/** Round numbers of a range: 1, 2 and 5 times powers of ten. */
function ticks(low, high, log) {
  const all = [];
  for (let power = -4; power <= 6; power++) for (const digit of [1, 2, 5]) all.push(Number(`${digit}e${power}`));
  if (log) return all.filter((value) => value >= low && value <= high);
  const step = all.find((value) => (high - low) / value <= 6) ?? high;
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, i) => Number((i * step).toPrecision(6))).filter((value) => value >= low);
}

/** One panel. @param {{ top: number, height: number, name: string, log: boolean, xs: [number, number], ys: [number, number], series: { colour: string, points: [number, number][], marks: boolean }[] }} panel */
function panel({ top, height, name, log, xs, ys, series }) {
  const place = log ? Math.log : (value) => value;
  const [low, high] = ys.map(place);
  const x = (value) => round(left + ((value - xs[0]) / (xs[1] - xs[0] || 1)) * (width - left - right));
  const y = (value) => round(top + height - ((place(value) - low) / (high - low || 1)) * height);
  const lines = [`<text x="${left}" y="${top - 5}">${escapeXml(name)}</text>`];
  for (const tick of ticks(...ys, log))
    lines.push(`<path class="grid" d="M${left} ${y(tick)}H${width - right}"/><text class="end" x="${left - 5}" y="${Number(y(tick)) + 4}">${tick}</text>`);
  for (const tick of ticks(...xs, false)) lines.push(`<text class="middle" x="${x(tick)}" y="${top + height + 14}">${tick}</text>`);
  for (const { colour, points, marks } of series) {
    const places = points.map(([b, value]) => `${x(b)} ${y(value)}`);
    if (places.length > 1) lines.push(`<polyline stroke="${colour}"${marks ? ' stroke-dasharray="3 3"' : ""} points="${places.join(" ")}"/>`);
    if (marks) for (const at of places) lines.push(`<circle fill="${colour}" cx="${at.split(" ")[0]}" cy="${at.split(" ")[1]}" r="2.5"/>`);
  }
  return lines;
}

/**
 * @param {string} title
 * @param {{ label: string, text: string }[]} runs with what their metrics.jsonl holds
 * @returns {string} an SVG
 */
export function plot(title, runs) {
  const all = runs.map(({ label, text }, i) => ({ label, colour: colours[i % colours.length], ...pointsOf(text) }));
  const losses = all.flatMap(({ train, valid }) => [...train, ...valid].map(([, value]) => value));
  const updates = all.flatMap(({ train, valid }) => [...train, ...valid].map(([b]) => b));
  const rates = all.flatMap(({ wer }) => wer.map(([, value]) => value));
  if (losses.length === 0) throw new Error("no losses in metrics.jsonl");
  const xs = [0, Math.max(...updates)];
  const top = 46 + legendHeight;
  const panels = panel({
    top,
    height: 200,
    name: "loss per frame: training (line), validation (dots)",
    log: true,
    xs,
    ys: [Math.min(...losses), Math.max(...losses)],
    series: all.flatMap(({ colour, train, valid }) => [
      { colour, points: train, marks: false },
      { colour, points: valid, marks: true },
    ]),
  });
  let height = top + 226;
  if (rates.length > 0) {
    panels.push(
      ...panel({
        top: height + 18,
        height: 90,
        name: "validation WER, %",
        log: false,
        xs,
        ys: [0, Math.max(...rates)],
        series: all.map(({ colour, wer }) => ({ colour, points: wer, marks: true })),
      }),
    );
    height += 134;
  }
  const legend = all.map(({ label, colour }, i) => `<text fill="${colour}" x="${left + i * 110}" y="40">${escapeXml(label)}</text>`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height + 14}" font-family="sans-serif" font-size="11">`,
    `<title>${escapeXml(title)}</title>`,
    "<style>.grid{stroke:#ddd}.end{text-anchor:end}.middle{text-anchor:middle}polyline{fill:none;stroke-width:1.5}</style>",
    '<rect width="100%" height="100%" fill="#fff"/>',
    `<text x="${left}" y="22" font-size="14">${escapeXml(title)}</text>`,
    ...(all.length > 1 ? legend : []),
    ...panels,
    `<text class="end" x="${width - right}" y="${height + 8}">updates</text>`,
    "</svg>",
    "",
  ].join("\n");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({ options: { out: { type: "string" }, title: { type: "string", default: "" } }, allowPositionals: true });
  if (values.out === undefined || positionals.length === 0) {
    console.error("usage: plot-metrics.mjs --out FILE.svg [--title TITLE] LABEL=metrics.jsonl ...");
    process.exit(2);
  }
  const runs = positionals.map((argument) => {
    const [label, ...path] = argument.split("=");
    return { label, text: readFileSync(path.join("="), "utf8") };
  });
  writeFileSync(values.out, plot(values.title, runs));
}
