// Puts what a benchmark printed into its section of docs/benchmarks.md, with the machine that it ran on. usage: node write-benchmarks.mjs NAME < OUTPUT
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";

const name = process.argv[2];
const output = readFileSync(0, "utf8").trim();
const path = new URL("../docs/benchmarks.md", import.meta.url);
const flags = /^flags\s*:(.*)$/m.exec(readOr("/proc/cpuinfo"))?.[1]?.split(" ") ?? [];
const wide = ["amx_bf16", "avx512_bf16", "avx512f", "avx2"].filter((flag) => flags.includes(flag)).join(", ");
const machine = `${cpus()[0]?.model.trim()}, ${cpus().length} cores (${wide}), ${Math.round(totalmem() / 2 ** 30)} GiB, ${new Date().toISOString().slice(0, 10)}`;

function readOr(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

const before = readFileSync(path, "utf8");
const marks = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
const section = `${marks[0]}\n### ${name}\n\n${machine}\n\n\`\`\`\n${output}\n\`\`\`\n${marks[1]}`;
const [start, end] = marks.map((mark) => before.indexOf(mark));
writeFileSync(path, start >= 0 && end > start ? before.slice(0, start) + section + before.slice(end + marks[1].length) : `${before.trimEnd()}\n\n${section}\n`);
