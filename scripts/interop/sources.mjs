// What sources.py asks of serac: node sources.mjs read CONFIG.json | shar CONFIG.json FOLDER RECORDING FEATURES | mux SPEC.json
import { readFileSync } from "node:fs";
import { MuxSource, memorySource, openSources, sourceFeatures, sourceSamples, writeSharFolder } from "../../build/js/data/index.js";

const [what, file, ...rest] = process.argv.slice(2);
const given = JSON.parse(readFileSync(file, "utf8"));
const sum = (values) => values.reduce((a, b) => a + b, 0);

async function cuts() {
  const { source } = await openSources({ ...given, force_finite: true });
  return source.load(Array.from({ length: source.length }, (_, i) => i));
}

if (what === "read") {
  for (const cut of await cuts()) {
    const features = await sourceFeatures(cut, { sampleRate: 16000, numMelBins: 80 });
    const samples = cut.audioPath === "" ? undefined : await sourceSamples(cut, 16000);
    console.log(
      JSON.stringify({
        id: cut.id,
        duration: cut.duration,
        text: cut.text,
        frames: features.frames,
        featureSum: sum(features.data),
        samples: samples?.length,
        energy: samples && sum(samples.map((x) => x * x)),
      }),
    );
  }
} else if (what === "shar") {
  const [folder, recording, features] = rest;
  console.log(await writeSharFolder(folder, await cuts(), { recording, features, shardSize: 3 }));
} else {
  const { sizes, weights, seed, count, infinite, open } = given;
  const sources = sizes.map((size, k) => memorySource(Array.from({ length: size }, (_, i) => ({ duration: 1, id: `${k}-${i}` }))));
  const mux = new MuxSource(sources, { weights: weights ?? undefined, seed, infinite, maxOpenStreams: open ?? undefined });
  const stream = await mux.open({ epoch: 0, seed: 0, shuffle: false });
  const refs = [];
  while (refs.length < count) {
    const block = await stream.read(Math.min(100, count - refs.length));
    if (!block) break;
    refs.push(...block.refs.subarray(0, block.count));
  }
  console.log(JSON.stringify((await mux.load(refs)).map(({ id }) => id)));
}
