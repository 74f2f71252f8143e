/**
 * lhotse's Shar folders as sources: cuts.*.jsonl.gz beside recording.*.tar and features.*.tar. Audio and features are read where they lie.
 * Other fields are named and left. Source: lhotse, shar/readers/lazy.py.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileError } from "../../formats/atomic.ts";
import type { TarMember } from "../../formats/tar/index.ts";
import { FormatError, ManifestError } from "../../util/errors.ts";
import { readMember } from "../audioSource.ts";
import { IndexedLines, type LineFormat, type LineIndex, openAnyLineIndex, PackedTexts } from "../lineIndex/index.ts";
import { listMembers } from "../tarred/list.ts";
import { TarredReport } from "../tarred/report.ts";
import type { SourceCut } from "./cut.ts";
import { parseFeatures } from "./features.ts";
import type { Leaf, LeafOptions } from "./leaf.ts";
import { LeafBuilder } from "./leafBuilder.ts";
import { cutFormat, withFields } from "./lhotse.ts";
import { parseLhotseCut, type SharMembers } from "./lhotseCut.ts";

/** The shards of each field, in order. */
type Fields = Readonly<Record<string, readonly string[]>>;

const bad = (at: string, message: string, fix = "copy or write the folder again"): never => {
  throw new ManifestError("MANIFEST_SHAR_BAD", { at, message, fix });
};

/** The files of a folder by field. @throws FormatError FILE_MISSING */
function fieldsOf(folder: string): Fields {
  let names: string[];
  try {
    names = readdirSync(folder).sort();
  } catch (error) {
    throw fileError(folder, "read", error);
  }
  const fields: Record<string, string[]> = {};
  for (const name of names) {
    const [, field] = /^(.+?)(?:\.\d+)?\.(?:tar|jsonl)(?:\.gz)?$/.exec(name) ?? [];
    if (field !== undefined) (fields[field] ??= []).push(join(folder, name));
  }
  if (!fields["cuts"])
    throw new FormatError("FILE_MISSING", { at: folder, message: "no cuts.*.jsonl.gz: not a Shar folder", fix: "give the folder that lhotse shar export wrote" });
  return fields;
}

/** Pairs of a tar: what is stored, and its manifest; by the cut's id. */
interface Pair {
  id: string;
  data: TarMember | undefined;
  meta: TarMember;
}

async function pairsOf(tar: string, options: LeafOptions): Promise<Pair[]> {
  const { members } = await listMembers(tar, { index: false, onDamaged: options.onBad, tars: tar }, new TarredReport(), options.onWarning).catch((error: unknown) => {
    throw error;
  });
  if (members.length % 2 !== 0) bad(tar, `${members.length} members, expected pairs of data and manifest`);
  const pairs: Pair[] = [];
  for (let i = 0; i < members.length; i += 2) {
    const data = members[i] as TarMember;
    const meta = members[i + 1] as TarMember;
    const id = data.name.slice(0, data.name.lastIndexOf("."));
    if (meta.name.slice(0, meta.name.lastIndexOf(".")) !== id) bad(`${tar}:${meta.name}`, `expected the manifest of ${data.name}`);
    pairs.push({ id, data: data.name.endsWith(".nodata") ? undefined : data, meta });
  }
  return pairs;
}

const placeOf = ({ name, dataOffset, size }: TarMember) => ({ name, offset: dataOffset, size });

/** A Shar folder. @throws ManifestError MANIFEST_SHAR_BAD, CUT_BAD, SOURCE_EMPTY; FormatError of reading, TAR_COMPRESSED */
export async function sharLeaf({ folder, at }: { folder: string | Fields; at: string }, options: LeafOptions): Promise<Leaf> {
  const fields = typeof folder === "string" ? fieldsOf(folder) : folder;
  const name = typeof folder === "string" ? folder : (fields["cuts"]?.[0] ?? "shar");
  const cutShards = fields["cuts"] as readonly string[];
  const left = Object.keys(fields).filter((field) => !["cuts", "recording", "features"].includes(field));
  if (left.length > 0) options.onWarning(`${name}: the fields ${left.join(", ")} are not read`);
  for (const field of ["recording", "features"])
    if (fields[field] && fields[field].length !== cutShards.length) bad(name, `${cutShards.length} shards of cuts and ${fields[field].length} of ${field}`);
  if (!fields["recording"] && !fields["features"]) bad(name, "neither recordings nor features", "write the folder with the field recording");
  const builder = new LeafBuilder(options);
  const format = cutFormat(options);
  /** Where the members of each utterance lie. */
  const members = new PackedTexts();
  const shardRows: number[] = [];
  const parts: LineIndex[] = [];
  for (const [i, path] of cutShards.entries()) {
    const recording = fields["recording"]?.[i];
    const features = fields["features"]?.[i];
    const audio = recording === undefined ? undefined : await pairsOf(recording, options);
    const stored = features === undefined ? undefined : await pairsOf(features, options);
    const before = members.length;
    let place = 0;
    /** The line at hand was given its members. */
    let counted = false;
    const rowMembers: { audio: Pair | undefined; stored: Pair | undefined }[] = [];
    const shardFormat: LineFormat = {
      ...format,
      key: undefined, // what is looked at here is more than its lines
      figures: (line) => {
        const { value } = line;
        const origin = `${line.path}:${line.line}`;
        const id = String(value["id"]).replace(/^\/+/, "");
        const pairs = [audio?.[place], stored?.[place]] as const;
        place++;
        counted = true;
        for (const [pair, tar, all] of [
          [pairs[0], recording, audio],
          [pairs[1], features, stored],
        ] as const) {
          if (all === undefined) continue;
          if (!pair) return bad(tar as string, `ends before the cut ${id} of ${origin}`);
          if (pair.id !== id) return bad(`${tar}:${(pair.data ?? pair.meta).name}`, `expected the cut ${id} of ${origin}`, "cuts and the other fields must come in the same order");
        }
        const [one, two] = pairs;
        if (!one?.data && !two?.data) {
          counted = false;
          builder.leftOut.add("without audio or features", origin);
          return undefined;
        }
        const cut = withFields(parseLhotseCut(value, origin, "", { recording: one?.data && { tar: recording as string, member: placeOf(one.data) } }), options);
        counted = false;
        if (!builder.acceptCut(cut)) return undefined;
        rowMembers.push({ audio: one, stored: two });
        return { duration: cut.duration, tokens: 0 };
      },
    };
    const index = await openAnyLineIndex(path, shardFormat, {
      onError: (error) => {
        if (error.code === "MANIFEST_SHAR_BAD") throw error;
        if (!counted) place++; // a line that is no JSON, and stands for a member all the same
        counted = false;
        builder.bad(error);
      },
      onProgress: (lines) => options.onProgress?.(members.length + lines),
    });
    for (const [all, tar] of [
      [audio, recording],
      [stored, features],
    ] as const)
      if (all && all.length > place) bad(tar as string, `holds ${all.length} members, ${path} has ${place} cuts`);
    for (const { audio: one, stored: two } of rowMembers)
      members.push(
        JSON.stringify({
          recording: one?.data && { tar: recording as string, member: placeOf(one.data) },
          features: two?.data && { tar: features as string, member: placeOf(two.data), manifest: await metaOf(features as string, two.meta) },
        } satisfies SharMembers),
      );
    parts.push(index);
    shardRows.push(members.length - before);
  }
  const lines = new IndexedLines(parts, format);
  return builder.build({
    name,
    at,
    kind: "lhotse_shar",
    load: async (rows) =>
      (await lines.read(rows)).map(({ value, path, line }, i): SourceCut => {
        const places = JSON.parse(members.at(rows[i] as number)) as SharMembers;
        return builder.finish(withFields(parseLhotseCut(value, `${path}:${line}`, "", places), options), line);
      }),
    where: (row) => lines.where(row),
    fingerprint: () => lines.fingerprint(),
    shardUtterances: shardRows,
  });
}

async function metaOf(tar: string, meta: TarMember) {
  const at = `${tar}:${meta.name}`;
  let value: unknown;
  try {
    value = JSON.parse((await readMember(tar, placeOf(meta))).toString("utf8"));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return bad(at, "the manifest of the features is not JSON");
  }
  return { ...parseFeatures(value, at), storagePath: tar };
}
