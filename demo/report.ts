/** The end of the demo: error rates, transcripts and the course of the training, for a terminal and as one HTML file. */

/** One test set. */
export interface ResultRow {
  name: string;
  /** Where the speech is from: a figure is never shown without it. */
  speech: "synthetic" | "human";
  speakers: number;
  /** Recordings that the utterances were made from, where they were joined from fewer; the number of utterances otherwise. */
  recordings: number;
  utterances: number;
  words: number;
  substitutions: number;
  deletions: number;
  insertions: number;
}

/** What training said at one moment. */
export interface CurvePoint {
  epoch: number;
  trainLoss?: number;
  validLoss?: number;
  /** Word error rate on the validation set, in percent. */
  validWer?: number;
}

export interface Transcript {
  audio: string;
  speech: "synthetic" | "human";
  reference: string;
  /** Recognised words with their times in seconds. */
  words: readonly { word: string; start: number }[];
}

export interface Report {
  title: string;
  rows: readonly ResultRow[];
  curve: readonly CurvePoint[];
  transcripts: readonly Transcript[];
  /** Commands to type next. */
  next: readonly string[];
}

/** Errors per reference word, in percent. Of no words, 0 without and Infinity with insertions. */
export function wordErrorRate({ words, substitutions, deletions, insertions }: ResultRow): number {
  const errors = substitutions + deletions + insertions;
  return errors === 0 ? 0 : (100 * errors) / words;
}

const headings = ["test set", "speech", "speakers", "recordings", "utterances", "words", "sub", "del", "ins", "WER"] as const;

function cells(row: ResultRow): string[] {
  const counts = [row.speakers, row.recordings, row.utterances, row.words, row.substitutions, row.deletions, row.insertions];
  return [row.name, row.speech, ...counts.map(String), `${wordErrorRate(row).toFixed(2)} %`];
}

/** Lines of a table, texts to the left and numbers to the right. */
export function tableText(rows: readonly ResultRow[]): string {
  const lines = [[...headings], ...rows.map(cells)];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => (line[column] as string).length)));
  const format = (line: readonly string[]): string =>
    line
      .map((cell, i) => (i < 2 ? cell.padEnd(widths[i] as number) : cell.padStart(widths[i] as number)))
      .join("  ")
      .trimEnd();
  return [format(lines[0] as string[]), widths.map((width) => "-".repeat(width)).join("  "), ...lines.slice(1).map(format)].join("\n");
}

type Series = "trainLoss" | "validLoss" | "validWer";

const seriesNames: Record<Series, string> = { trainLoss: "training loss", validLoss: "validation loss", validWer: "validation WER, %" };

function seriesPoints(curve: readonly CurvePoint[], series: Series): { x: number; y: number }[] {
  return curve.flatMap((point) => {
    const y = point[series];
    return y !== undefined && Number.isFinite(y) ? [{ x: point.epoch, y }] : [];
  });
}

/**
 * A curve of `width` by `height` characters, with its range at the left and the epochs below. Columns that hold several points show the last.
 * @returns an empty string where there is nothing to draw
 */
export function curveText(curve: readonly CurvePoint[], series: Series, { width = 60, height = 8 }: { width?: number; height?: number } = {}): string {
  const points = seriesPoints(curve, series);
  const [first, last] = [points[0], points[points.length - 1]];
  if (first === undefined || last === undefined) return "";
  const high = Math.max(...points.map(({ y }) => y));
  const low = Math.min(...points.map(({ y }) => y));
  const eighths = " ▁▂▃▄▅▆▇█";
  const columns = Math.min(width, Math.max(1, points.length));
  const levels = new Array<number>(columns).fill(0);
  points.forEach(({ y }, i) => {
    const share = high > low ? (y - low) / (high - low) : 1;
    levels[points.length === 1 ? 0 : Math.round((i * (columns - 1)) / (points.length - 1))] = 1 + Math.round(share * (height * 8 - 1)); // the lowest still shows
  });
  const label = (value: number): string => value.toPrecision(3);
  const margin = Math.max(label(high).length, label(low).length);
  const barWidth = Math.max(1, Math.min(4, Math.floor(width / columns)));
  const lines = [`${seriesNames[series]}, epochs ${first.x} to ${last.x}`];
  for (let row = height - 1; row >= 0; row--) {
    const bar = levels.map((level) => eighths[Math.max(0, Math.min(8, level - 8 * row))]?.repeat(barWidth)).join("");
    const mark = row === height - 1 ? label(high) : row === 0 ? label(low) : "";
    lines.push(`${mark.padStart(margin)} │${bar}`.trimEnd());
  }
  return lines.join("\n");
}

/** Transcripts, each with its reference and the start of every word. */
export function transcriptsText(transcripts: readonly Transcript[]): string {
  return transcripts
    .map(({ audio, speech, reference, words }) => {
      const said = words.map(({ word, start }) => `${start.toFixed(2)} ${word}`).join("  ");
      return `${audio} (${speech})\n  said   ${reference}\n  heard  ${words.map(({ word }) => word).join(" ")}\n  times  ${said}`;
    })
    .join("\n");
}

/** All of a report for a terminal. */
export function reportText({ title, rows, curve, transcripts, next }: Report): string {
  const curves = (["validLoss", "validWer"] as const).map((series) => curveText(curve, series));
  const parts = [title, ...curves, tableText(rows), transcriptsText(transcripts), next.length > 0 ? `Type next:\n${next.map((line) => `  ${line}`).join("\n")}` : ""];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

const colours: Record<Series, string> = { trainLoss: "#8a94a6", validLoss: "#1f5fbf", validWer: "#c2410c" };

/** The lines of some series in one frame. */
function curveSvg(curve: readonly CurvePoint[], series: readonly Series[]): string {
  const [width, height, left, bottom] = [640, 260, 50, 30];
  const drawn = series.map((name) => ({ name, points: seriesPoints(curve, name) })).filter(({ points }) => points.length > 0);
  if (drawn.length === 0) return "";
  const all = drawn.flatMap(({ points }) => points);
  const [firstX, lastX] = [Math.min(...all.map(({ x }) => x)), Math.max(...all.map(({ x }) => x))];
  const top = Math.max(...all.map(({ y }) => y), 1e-9);
  const px = (x: number): string => (left + ((width - left - 10) * (x - firstX)) / Math.max(lastX - firstX, 1e-9)).toFixed(1);
  const py = (y: number): string => (10 + (height - bottom - 10) * (1 - y / top)).toFixed(1);
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const y = py(top * share);
    return `<line x1="${left}" x2="${width - 10}" y1="${y}" y2="${y}" stroke="#ddd"/><text x="${left - 6}" y="${y}" text-anchor="end" dy="4">${(top * share).toPrecision(3)}</text>`;
  });
  const lines = drawn.map(({ name, points }) => {
    const path = points.map(({ x, y }) => `${px(x)},${py(y)}`).join(" ");
    return `<polyline fill="none" stroke="${colours[name]}" stroke-width="2" points="${path}"/>`;
  });
  const legend = drawn.map(({ name }, i) => `<text x="${width - 16}" y="${26 + 18 * i}" text-anchor="end" fill="${colours[name]}">${seriesNames[name]}</text>`);
  const axis = `<text x="${left}" y="${height - 8}">epoch ${firstX}</text><text x="${width - 10}" y="${height - 8}" text-anchor="end">epoch ${lastX}</text>`;
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${series.map((name) => seriesNames[name]).join(", ")}">${[...grid, ...lines, ...legend, axis].join("")}</svg>`;
}

/** All of a report as one HTML file that loads nothing. */
export function reportHtml({ title, rows, curve, transcripts, next }: Report): string {
  const row = (tag: string, line: readonly string[]): string => `<tr>${line.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join("")}</tr>`;
  const heard = transcripts.map(({ audio, speech, reference, words }) => {
    const spans = words.map(({ word, start }) => `<span title="${start.toFixed(2)} s">${escapeHtml(word)}<sub>${start.toFixed(2)}</sub></span>`).join(" ");
    return `<dt>${escapeHtml(audio)} (${speech})</dt><dd>said: ${escapeHtml(reference)}<br>heard: ${spans}</dd>`;
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(title)}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f27; }
table { border-collapse: collapse; display: block; overflow-x: auto; } th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; } td:last-child { font-weight: 600; }
svg { width: 100%; font-size: 12px; fill: #555; } sub { color: #888; margin-left: .15rem; } pre { background: #f4f5f7; padding: 1rem; overflow-x: auto; }
</style></head><body>
<h1>${escapeHtml(title)}</h1>
<h2>Word error rates</h2>
<table>${row("th", headings)}${rows.map((result) => row("td", cells(result))).join("")}</table>
<h2>Training</h2>
${curveSvg(curve, ["trainLoss", "validLoss"])}
${curveSvg(curve, ["validWer"])}
<h2>Transcripts</h2>
<dl>${heard.join("")}</dl>
<h2>Next</h2>
<pre>${escapeHtml(next.join("\n"))}</pre>
</body></html>
`;
}
