/**
 * NeMo's tarred datasets as sources. What opening finds is kept beside the first manifest, so that another start with the same files reads neither manifests nor
 * the headers of tars.
 */
import { createHash } from "node:crypto";
import { ManifestError, SeracError } from "../../util/errors.ts";
import { LeftOut } from "../filter.ts";
import { identityOf, lineIndexPath } from "../lineIndex/index.ts";
import type { ShardSpec } from "../shards.ts";
import { datasetFiles, eachTarredShard } from "../tarred/eachShard.ts";
import type { TarredShard } from "../tarred/opened.ts";
import { type Reason, reasons } from "../tarred/report.ts";
import { formatKey, indexFrom, type Leaf, type LeafOptions, refusalOf } from "./leaf.ts";
import { LeafBuilder } from "./leafBuilder.ts";
import { sourceCut } from "./nemo.ts";
import { type TarredFindings, TarredRows } from "./tarredRows.ts";

/** What is collected of a dataset while its shards pass by: bounds are looked at later. */
class Collected {
  readonly rows = TarredRows.empty();
  readonly leftOut = new LeftOut();
  readonly shards: [string, number][] = [];
  /** Nothing was wrong, so that another start would find the same. */
  isClean = true;
  private readonly options: LeafOptions;
  private readonly builder: LeafBuilder;
  private seen = 0;

  constructor(options: LeafOptions, builder: LeafBuilder) {
    this.options = options;
    this.builder = builder;
  }

  take({ path, items }: TarredShard): void {
    const { rows, options, builder } = this;
    const before = rows.length;
    for (const item of items) {
      const { cut, value } = item;
      try {
        if (Number.isNaN(cut.duration))
          throw new ManifestError("MANIFEST_NO_DURATION", { at: cut.origin, message: 'no "duration"', fix: "add the length in seconds: serac tar verify --fix" });
        const one = sourceCut(cut, value, undefined, options);
        const refusal = refusalOf(one, options);
        if (refusal === undefined) rows.push(item, builder.tokensOf(one));
        else this.leftOut.add(refusal, one.origin);
      } catch (error) {
        if (!(error instanceof ManifestError)) throw error;
        this.isClean = false;
        builder.bad(error);
      }
    }
    this.shards.push([path, rows.length - before]);
    this.seen += items.length;
    options.onProgress?.(this.seen);
  }
}

const damages: readonly Reason[] = ["unusableLines", "damaged"];

/** The file that keeps a dataset as it was opened with these settings; undefined where none is to be. */
function keptFile(files: readonly string[], manifests: readonly string[], options: LeafOptions): string | undefined {
  const key = formatKey("tarred", options);
  const [first] = manifests;
  if (key === undefined || first === undefined || manifests.includes("-")) return undefined;
  if (manifests.reduce((sum, path) => sum + identityOf(path).size, 0) < indexFrom) return undefined;
  return lineIndexPath(first, `${key}-${createHash("sha256").update(files.join("\n")).digest("hex").slice(0, 12)}`);
}

/** Opens a dataset: as it was kept, or anew. @throws what openTarred throws */
async function open(
  manifest: ShardSpec,
  tars: ShardSpec,
  options: LeafOptions,
  newBuilder: () => LeafBuilder,
): Promise<{ rows: TarredRows; findings: TarredFindings; builder: LeafBuilder }> {
  const { onBad, onWarning } = options;
  const { manifests, files } = datasetFiles(manifest, tars);
  const file = keptFile(files, manifests, options);
  const kept = file === undefined ? undefined : TarredRows.load(file, files);
  if (kept) {
    kept.findings.warnings.forEach(onWarning);
    return { ...kept, builder: newBuilder() };
  }
  const warnings: string[] = [];
  const say = (message: string): void => {
    warnings.push(message);
    onWarning(message);
  };
  let builder = newBuilder();
  let collected = new Collected(options, builder);
  const report = await eachTarredShard(
    { manifest, tars, index: true, onDamaged: onBad, onWarning: say },
    {
      take: (shard) => collected.take(shard),
      restart: () => {
        builder = newBuilder();
        collected = new Collected(options, builder);
      },
    },
  );
  const { rows, shards, leftOut, isClean } = collected;
  for (const note of report.notes) say(note);
  for (const [reason, { count, examples }] of report.findings) leftOut.add(reasons[reason], examples[0] as string, count);
  const findings: TarredFindings = { shards, leftOut: Array.from(leftOut.counts, ([reason, { count, example }]) => [reason, count, example]), warnings };
  if (file !== undefined && isClean && damages.every((reason) => report.count(reason) === 0)) {
    try {
      rows.save(file, files, findings);
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      onWarning(`${file} cannot be written, so that the dataset is opened anew at the next start (${error.message})`);
    }
  }
  return { rows, findings, builder };
}

/** A tarred dataset; its utterances are found by the places of their members. @throws what openTarred throws; ManifestError SOURCE_EMPTY */
export async function nemoTarredLeaf({ manifest, tars, at }: { manifest: ShardSpec; tars: ShardSpec; at: string }, options: LeafOptions): Promise<Leaf> {
  const { rows, findings, builder } = await open(manifest, tars, options, () => new LeafBuilder(options));
  const { shards, leftOut } = findings;
  for (const [reason, count, example] of leftOut) builder.leftOut.add(reason, example, count);
  const kept = new Uint32Array(rows.length);
  let count = 0;
  let row = 0;
  const origin = (): string => rows.where(row);
  const shardUtterances = shards.map(([, utterances]) => {
    const before = count;
    for (const end = row + utterances; row < end; row++) {
      try {
        if (builder.accept(rows.duration(row), rows.tokensOf(row), origin)) kept[count++] = row;
      } catch (error) {
        if (!(error instanceof ManifestError)) throw error;
        builder.bad(error);
      }
    }
    return count - before;
  });
  const [first = ["", 0] as const] = shards;
  return builder.build({
    name: shards.length === 1 ? first[0] : `${first[0]} and ${shards.length - 1} more`,
    at,
    kind: "nemo_tarred",
    load: async (wanted) => Array.from(wanted, (utterance) => builder.finish(rows.cut(kept[utterance] as number, options), utterance)),
    where: (utterance) => rows.where(kept[utterance] as number),
    fingerprint: () => rows.fingerprint(),
    shardUtterances,
  });
}
