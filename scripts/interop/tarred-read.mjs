// What serac reads, as JSON lines for tarred-read.py. usage: node tarred-read.mjs COMMAND ARGUMENTS...
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { tarredDataset } from "../../build/js/data/index.js";
import { IndexedTar, printTarHeader, readTar } from "../../build/js/formats/tar/index.js";
import { expandBraces } from "../../build/js/util/braces.js";

const sha = (bytes) => createHash("sha256").update(bytes).digest("hex");
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const [command, ...args] = process.argv.slice(2);

/** The members of tars: name, size, digest, offset of the first header. */
async function members(paths) {
  for (const path of paths) for await (const { name, size, data, headerOffset } of readTar(path)) if (data) print({ name, size, sha256: sha(data), offset: headerOffset });
}

/** The utterances of a dataset: tars, and a manifest where there is one. */
async function utterances([tars, manifest, access = "sequential"]) {
  const dataset = await tarredDataset({ tars, ...(manifest ? { manifest } : {}), access });
  const seen = [];
  for await (const { cut, member, bytes, audio } of dataset) {
    const samples = audio.channels[0];
    seen.push({
      text: cut.text,
      duration: cut.duration,
      member,
      sha256: sha(bytes),
      rate: audio.sampleRate,
      samples: sha(new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength)),
      count: samples.length,
    });
  }
  if (seen.length !== dataset.length) throw new Error(`${seen.length} utterances, but a length of ${dataset.length}`);
  seen.forEach(print);
}

/** The samples of an archive by its index, built where absent, last first. */
async function indexed([path]) {
  const tar = await IndexedTar.open(path);
  for (let i = tar.length - 1; i >= 0; i--) print((await tar.sample(i)).map(({ name, data, headerOffset }) => ({ name, sha256: sha(data), offset: headerOffset })));
  await tar.close();
}

/** Writes the members of an archive anew, in another format. */
async function rewrite([from, to, format]) {
  const parts = [];
  for await (const { name, data, mode, mtime } of readTar(from)) {
    parts.push(printTarHeader({ name, mode, uid: 0, gid: 0, size: data.length, mtime, type: "0", linkName: "", userName: "", groupName: "" }, { format }));
    parts.push(Buffer.from(data), Buffer.alloc((512 - (data.length % 512)) % 512));
  }
  parts.push(Buffer.alloc(1024));
  writeFileSync(to, Buffer.concat(parts));
}

/** Expands patterns, one a line of standard input as JSON. */
async function braces() {
  let text = "";
  for await (const chunk of process.stdin) text += chunk;
  for (const pattern of JSON.parse(text)) {
    try {
      print(expandBraces(pattern));
    } catch (error) {
      print(error.code);
    }
  }
}

await { members, utterances, indexed, rewrite, braces }[command](args);
