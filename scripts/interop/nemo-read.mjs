// What serac reads of NeMo's datasets, as JSON lines for nemo-read.py. usage: node nemo-read.mjs COMMAND JSON
import { createHash } from "node:crypto";
import { expandShards, nemoDataset, readCanary, readManifest, tarredDataset, writeCanary } from "../../build/js/data/index.js";
import { concatDraws } from "../../build/js/data/tarred/concat.js";
import { bucketBatchSizes, bucketOrder } from "../../build/js/data/tarred/index.js";

const sha = (bytes) => createHash("sha256").update(bytes).digest("hex");
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const quiet = { onWarning: () => {} };
const shown = ({ cut, member, audio, entry }) => {
  const [samples] = audio.channels;
  return {
    text: cut.text,
    lang: cut.lang ?? null,
    member,
    duration: cut.duration,
    count: samples.length,
    samples: sha(new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength)),
    entry,
  };
};

const commands = {
  /** The utterances of tarredDataset's options. */
  async utterances(options) {
    const dataset = await tarredDataset({ ...options, ...quiet });
    let count = 0;
    for await (const utterance of dataset) {
      print(shown(utterance));
      count++;
    }
    if (count !== dataset.length) throw new Error(`${count} utterances, but a length of ${dataset.length}`);
  },
  /** The batches of an epoch of a train_ds: a list of texts each. */
  async batches({ config, epoch = 0 }) {
    const dataset = await nemoDataset(config, { ...quiet, decode: false });
    for await (const batch of dataset.batches(epoch)) print(batch.map(({ cut }) => cut.text));
  },
  /** The cuts of a manifest. */
  async cuts({ manifest }) {
    for await (const { text, duration, offset, lang, audioPath } of readManifest(manifest)) print({ text, duration, offset: offset ?? null, lang: lang ?? null, audioPath });
  },
  /** Patterns under strategies, for a rank of several. */
  shards(cases) {
    for (const { spec, strategy, worldSize, rank } of cases) print(expandShards(spec, { strategy, worldSize, rank }));
  },
  /** Draws of concatenations, orders and batch sizes of buckets. */
  draws({ lengths, technique, temperature, probabilities, seed, count, buckets, epochs, size }) {
    const draws = concatDraws(
      lengths,
      { concatSamplingTechnique: technique, concatSamplingTemperature: temperature, concatSamplingProbabilities: probabilities ?? undefined },
      seed,
    );
    print(Array.from({ length: count }, () => draws.next().value));
    print(Array.from({ length: epochs }, (_, epoch) => bucketOrder("synced_randomized", buckets, epoch, 0, 0)));
    print(bucketBatchSizes(size, buckets));
  },
  /** Lines with the keys of Canary, read and written again. */
  canary(cases) {
    for (const { line, version } of cases) print(writeCanary(readCanary(line, { version }), { version }));
  },
};

const [command, json] = process.argv.slice(2);
await commands[command](JSON.parse(json));
