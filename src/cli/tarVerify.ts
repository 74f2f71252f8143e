import { ConfigError } from "../util/errors.ts";
import { boolean, integer, number, string } from "../util/options.ts";
import { command } from "./command.ts";

/** `serac tar verify`: is a tarred dataset whole. */
export const tarVerify = command({
  name: "tar verify",
  summary: "Verify a tarred dataset: members, entries, durations, checksums",
  description: "Exit code 1 where there are errors. Works on datasets of NeMo's script as well; these have no checksums to compare.",
  examples: ["serac tar verify tarred", "serac tar verify --manifest 'tarred/sharded_manifests/manifest_{0..63}.json' --tars 'tarred/audio_{0..63}.tar' --json"],
  positional: { folder: { help: "folder of the dataset", optional: true } },
  options: {
    manifest: string({ unit: "pattern", help: "manifests, where no folder is given" }),
    tars: string({ unit: "pattern", help: "tar files, where no folder is given" }),
    decode: boolean({ default: true, help: "decode all audio; --no-decode reads its headers alone" }),
    tolerance: number({ default: 0.05, min: 0, unit: "seconds", help: "by how much durations may differ" }),
    examples: integer({ default: 5, min: 0, help: "examples of each kind of fault" }),
  },
  async run({ folder, manifest, tars, ...options }, out) {
    if (folder === undefined && (manifest === undefined || tars === undefined))
      throw new ConfigError("CONFIG_BAD_VALUE", { message: "expected a folder, or --manifest and --tars" });
    const { verifyKinds } = await import("../data/tarred/verify/findings.ts");
    const { verifyTarred } = await import("../data/tarred/verify/verify.ts");
    const progress = out.progress(undefined, "entries");
    const place = folder !== undefined ? { folder } : { manifest: manifest as string, tars: tars as string };
    const report = await verifyTarred({ ...options, ...place, onShard: (_, entries) => progress.add(entries), say: (line) => out.say(line), signal: out.signal });
    progress.clear();
    if (out.json) out.print(JSON.stringify(report));
    else {
      for (const { kind, severity, count, examples } of report.findings) {
        out.print(`${severity}: ${count} ${verifyKinds[kind]}`);
        for (const example of examples) out.print(`  ${example}`);
        if (count > examples.length && examples.length > 0) out.print(`  and ${count - examples.length} more`);
      }
      const audio = options.decode ? `, ${(report.seconds / 3600).toFixed(2)} h of audio decoded` : "";
      out.print(`${report.ok ? "ok" : "FAULTY"}: ${report.shards} shards, ${report.members} members, ${report.entries} entries${audio}, ${report.checksums} checksums compared`);
    }
    return report.ok ? 0 : 1;
  },
});
