/**
 * A run that is killed by SIGKILL goes on bit for bit: every checkpoint that it leaves is that of the run that was not killed, parameters, average, optimiser, generators,
 * place in the data, counters, scale and statistics. SERAC_KILLS is how often each run is killed, SERAC_KILL_SEED chooses when. Runs are of compiled code: `npm run build:js` before.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { liveTensors } from "../../src/torch/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { Random } from "../../src/util/random.ts";
import { everythingRandom } from "./corpora.ts";
import { checkpointsIn, chooseKills, differences, killedRun, momentsOf, unfinishedIn } from "./kills.ts";
import { toneCorpus } from "./tones.ts";

const many = Number(process.env["SERAC_KILLS"] ?? 0);
const seed = Number(process.env["SERAC_KILL_SEED"] ?? 1);
/** Each run a few times, or as often as asked. */
const runs = many > 0 ? [0, 2].flatMap((numWorkers) => [false, true].map((useBf16) => ({ numWorkers, useBf16, count: many }))) : [{ numWorkers: 2, useBf16: true, count: 3 }];

let folder: string;
let options: TrainOptionsInput;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-kills-"));
  options = {
    ...(await toneCorpus(folder)),
    ...everythingRandom(folder),
    numEpochs: many > 0 ? 3 : 1,
    logInterval: 1,
    averagePeriod: 2,
    saveEveryN: 2,
    keepLastK: 10,
    validInterval: 5,
  };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a run that is killed goes on bit for bit", () => {
  test.each(runs)("$count kills, $numWorkers workers, bfloat16 $useBf16", { timeout: 1_800_000 }, async ({ numWorkers, useBf16, count }) => {
    const before = liveTensors();
    const name = `${numWorkers}-${useBf16}`;
    const [whole, killed] = [join(folder, `whole-${name}`), join(folder, `killed-${name}`)];
    const said: string[] = [];
    await train({ ...options, numWorkers, useBf16, expDir: whole }, { report: { say: (line) => said.push(line) } });
    const moments = momentsOf(said);
    const kills = chooseKills(moments.slice(0, -2), { count, inSave: Math.ceil(count / 2), random: new Random(seed) });
    const reports = await killedRun({ ...options, numWorkers, useBf16, expDir: killed }, kills);
    const tell = reports.map(
      ({ after, inSave, delay, unfinished, goesOn }) =>
        `${after} ${inSave ? "in a save" : `${delay.toFixed(0)} ms later`}${unfinished ? `, broke off ${unfinished}` : ""}; ${goesOn || "from the start"}`,
    );
    if (many > 0) console.log([`${numWorkers} workers, ${useBf16 ? "bfloat16" : "float32"}, ${moments.length} updates:`, ...tell].join("\n  "));
    expect(reports).toHaveLength(count);
    expect(checkpointsIn(whole).length).toBeGreaterThan(6);
    expect(differences(killed, whole)).toEqual([]);
    expect(unfinishedIn(killed)).toEqual([]);
    expect(liveTensors()).toBe(before);
  });
});
