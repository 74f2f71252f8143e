/**
 * NeMo's tarred datasets as sources. Of an utterance are kept where its member lies and, packed, what its manifest says: a hundred bytes, so that millions
 * of them are opened in little memory.
 */
import { createHash } from "node:crypto";
import { ManifestError } from "../../util/errors.ts";
import { NumberList } from "../../util/hash.ts";
import { PackedTexts } from "../lineIndex/index.ts";
import { makeCut } from "../manifest/cuts.ts";
import { parseEntry } from "../manifest/entry.ts";
import type { ManifestObject } from "../manifest/lines.ts";
import type { ShardSpec } from "../shards.ts";
import { eachTarredShard } from "../tarred/eachShard.ts";
import type { TarredItem, TarredShard } from "../tarred/opened.ts";
import { reasons } from "../tarred/report.ts";
import type { SourceCut } from "./cut.ts";
import type { Leaf, LeafOptions } from "./leaf.ts";
import { LeafBuilder } from "./leafBuilder.ts";
import { sourceCut } from "./nemo.ts";

/** The member's name, the manifest, the number of the line, and the line. */
type Said = readonly [name: string, manifest: string, line: number, value: ManifestObject];

/** Utterances of tars in little memory. */
class TarredRows {
  private readonly tars: string[] = [];
  private readonly tarOf = new NumberList(Uint32Array);
  private readonly offsets = new NumberList();
  private readonly sizes = new NumberList();
  private readonly said = new PackedTexts();
  private readonly hash = createHash("sha256");
  private known: string | undefined;

  get length(): number {
    return this.said.length;
  }

  push({ cut: { member, origin, audioPath }, value }: TarredItem): void {
    if (this.tars.at(-1) !== audioPath) this.tars.push(audioPath);
    this.tarOf.push(this.tars.length - 1);
    this.offsets.push(member?.offset ?? 0);
    this.sizes.push(member?.size ?? 0);
    const colon = origin.lastIndexOf(":");
    const text = JSON.stringify([member?.name ?? "", origin.slice(0, colon), Number(origin.slice(colon + 1)), value] satisfies Said);
    this.hash.update(text);
    this.said.push(text);
  }

  private saidOf(row: number): Said {
    return JSON.parse(this.said.at(row)) as Said;
  }

  where(row: number): string {
    const [, manifest, line] = this.saidOf(row);
    return `${manifest}:${line}`;
  }

  /** Changes with any entry; call it once all are there. */
  fingerprint(): string {
    this.known ??= this.hash.digest("hex");
    return this.known;
  }

  cut(row: number, options: LeafOptions): SourceCut {
    const [name, path, line, value] = this.saidOf(row);
    const entry = parseEntry({ value, line, path }, { needDuration: false });
    const member = { name, offset: this.offsets.get(row), size: this.sizes.get(row) };
    return sourceCut(makeCut(entry, name, { audioPath: this.tars[this.tarOf.get(row)] as string, member }), value, undefined, options);
  }
}

/** What is collected of a dataset while its shards pass by. */
class Collected {
  readonly builder: LeafBuilder;
  readonly rows = new TarredRows();
  readonly shardRows: number[] = [];
  readonly paths: string[] = [];
  private readonly options: LeafOptions;
  private seen = 0;

  constructor(options: LeafOptions) {
    this.options = options;
    this.builder = new LeafBuilder(options);
  }

  take({ path, items }: TarredShard): void {
    const { builder, rows, options } = this;
    const before = rows.length;
    this.paths.push(path);
    for (const item of items) {
      const { cut, value } = item;
      try {
        if (Number.isNaN(cut.duration))
          throw new ManifestError("MANIFEST_NO_DURATION", { at: cut.origin, message: 'no "duration"', fix: "add the length in seconds: serac tar verify --fix" });
        if (builder.acceptCut(sourceCut(cut, value, undefined, options))) rows.push(item);
      } catch (error) {
        if (!(error instanceof ManifestError)) throw error;
        builder.bad(error);
      }
    }
    this.shardRows.push(rows.length - before);
    this.seen += items.length;
    options.onProgress?.(this.seen);
  }
}

/** A tarred dataset; its utterances are found by the places of their members. @throws what openTarred throws; ManifestError SOURCE_EMPTY */
export async function nemoTarredLeaf({ manifest, tars, at }: { manifest: ShardSpec; tars: ShardSpec; at: string }, options: LeafOptions): Promise<Leaf> {
  let collected = new Collected(options);
  const report = await eachTarredShard(
    { manifest, tars, index: true, onDamaged: options.onBad, onWarning: options.onWarning },
    {
      take: (shard) => collected.take(shard),
      restart: () => {
        collected = new Collected(options);
      },
    },
  );
  const { builder, rows, paths, shardRows } = collected;
  for (const [reason, { count, examples }] of report.findings) builder.leftOut.add(reasons[reason], examples[0] as string, count);
  for (const note of report.notes) options.onWarning(note);
  return builder.build({
    name: paths.length === 1 ? (paths[0] as string) : `${paths[0]} and ${paths.length - 1} more`,
    at,
    kind: "nemo_tarred",
    load: async (wanted) => Array.from(wanted, (row) => builder.finish(rows.cut(row, options), row)),
    where: (row) => rows.where(row),
    fingerprint: () => rows.fingerprint(),
    shardUtterances: shardRows,
  });
}
