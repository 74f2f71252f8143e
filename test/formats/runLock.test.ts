import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { FolderLock } from "../../src/formats/folderLock.ts";
import { RunLock } from "../../src/formats/runLock.ts";
import { packageRoot } from "../../src/util/paths.ts";
import { numberOf } from "../child.ts";

const root = mkdtempSync(join(tmpdir(), "serac-run-lock-"));
afterAll(() => rmSync(root, { recursive: true }));
const newFolder = (): string => mkdtempSync(join(root, "f-"));
const talk = { at: "there", busy: "is busy" };
const take = (folder: string, run: string, rank: number): RunLock => RunLock.take(folder, talk, { run, rank });

/** Turns this process's lock of a rank into that of one that is gone. */
function bury(folder: string, rank: number): void {
  const path = join(folder, `rank-${rank}`);
  symlinkSync(readlinkSync(path).replace(/\|\d+\|\d*\|([^|]*)$/, "|2147483646|1|$1"), `${path}-new`);
  renameSync(`${path}-new`, path);
}

describe("one process", () => {
  test("that is a run by itself keeps every other out until it leaves", () => {
    const folder = newFolder();
    const lock = RunLock.take(folder, talk);
    const refused = expect.objectContaining({
      code: "FOLDER_BUSY",
      message: expect.stringMatching(new RegExp(`there: process ${process.pid} on \\S+ is busy \\[.*remove ${folder}/rank-0`)),
    });
    expect(() => RunLock.take(folder, talk)).toThrow(refused);
    expect(() => take(folder, "other", 1)).toThrow(refused);
    lock.release();
    expect(readdirSync(folder)).toEqual([]);
    take(folder, "other", 1).release();
  });

  test("leaves alone a lock that took the place of its own, and one that is none of serac's", () => {
    const folder = newFolder();
    const lock = take(folder, "a", 0);
    bury(folder, 0);
    lock.release();
    expect(readdirSync(folder)).toEqual(["rank-0"]);
    rmSync(join(folder, "rank-0"));
    symlinkSync("what is this", join(folder, "rank-7"));
    expect(() => take(folder, "a", 0)).toThrow(/another process is busy.*rank-7/);
    expect(readdirSync(folder)).toEqual(["rank-7"]);
  });
});

describe("ranks", () => {
  test("of one run are all admitted, each once, whatever the run is called; another run is, once the last one has left", () => {
    const folder = newFolder();
    const run = "job|7 %zz\n/é";
    const locks = [0, 3, 1].map((rank) => take(folder, run, rank));
    expect(() => take(folder, run, 3)).toThrow(/is busy as rank 3 of the same run \[FOLDER_BUSY\].*remove .*rank-3/);
    for (const lock of locks) {
      expect(() => take(folder, "another", 9)).toThrow(/is busy \[FOLDER_BUSY\]/);
      lock.release();
    }
    take(folder, "another", 9).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test("that were killed come back to their run; another run is admitted once all are gone", () => {
    const folder = newFolder();
    const first = take(folder, "a", 0);
    take(folder, "a", 1);
    bury(folder, 1);
    expect(() => take(folder, "b", 1)).toThrow(/is busy/);
    take(folder, "a", 1); // back
    bury(folder, 1);
    first.release();
    expect(readdirSync(folder)).toEqual(["rank-1"]);
    take(folder, "b", 0).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test("wait while another process is being admitted, and take over from one that was killed meanwhile", () => {
    const folder = newFolder();
    FolderLock.take(folder, talk);
    const path = join(folder, "lock-1");
    const dead = readlinkSync(path).replace(/\|\d+\|\d*$/, "|2147483646|1");
    rmSync(path);
    symlinkSync(dead, path);
    const lock = take(folder, "a", 0);
    expect(readdirSync(folder)).toEqual(["rank-0"]);
    lock.release();
  });
});

const library = join(packageRoot, "build/js/formats/runLock.js");

interface Started {
  child: ChildProcess;
  /** What it said: "held", or the error's code and message. */
  said: Promise<string>;
  ended: Promise<unknown>;
}

/** A process that takes a rank, says what came of it, and holds it until its standard input ends. */
function start(folder: string, run: string, rank: number): Started {
  const script = `
    const { RunLock } = await import(process.argv[1]);
    const [folder, run, rank] = process.argv.slice(2);
    try {
      const lock = RunLock.take(folder, { at: "x", busy: "is busy" }, { run, rank: Number(rank) });
      console.log("held");
      process.stdin.resume().on("end", () => lock.release());
    } catch (error) { console.log(error.code + " " + error.message); process.stdin.destroy(); }`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, library, folder, run, String(rank)], { stdio: ["pipe", "pipe", "inherit"] });
  return { child, said: once(child.stdout as NodeJS.ReadableStream, "data").then(([text]) => String(text).trim()), ended: once(child, "exit") };
}

describe("processes", () => {
  test("that start at once after a run that was killed: all ranks of one run hold the folder together, those of the other are refused; SIGKILL frees a rank", async () => {
    const folder = newFolder();
    const old = [0, 1, 2].map((rank) => start(folder, "old", rank));
    expect(await Promise.all(old.map(({ said }) => said))).toEqual(["held", "held", "held"]);
    for (const { child } of old) child.kill("SIGKILL");
    await Promise.all(old.map(({ ended }) => ended));
    const ranks = [0, 1, 2, 3];
    const runs = ["a", "b"].map((run) => ranks.map((rank) => start(folder, run, rank)));
    const said = await Promise.all(runs.map((run) => Promise.all(run.map(({ said }) => said))));
    const winner = said.findIndex((run) => run[0] === "held");
    const held = runs[winner] as Started[];
    expect(said[winner]).toEqual(ranks.map(() => "held"));
    for (const one of said[1 - winner] as string[]) expect(one).toMatch(/^FOLDER_BUSY .*process \d+ on \S+ is busy \[/);
    const name = winner === 0 ? "a" : "b";

    const third = held[3] as Started;
    expect(await start(folder, name, 3).said).toMatch(new RegExp(`^FOLDER_BUSY .*process ${third.child.pid} on \\S+ is busy as rank 3 of the same run`));
    third.child.kill("SIGKILL");
    await third.ended;
    const back = start(folder, name, 3);
    expect(await back.said).toBe("held");
    const first = held[0] as Started;
    for (const { child } of [...held.slice(1), back]) child.kill("SIGKILL");
    await Promise.all([...held.slice(1), back].map(({ ended }) => ended));
    expect(await start(folder, "later", 0).said).toMatch(new RegExp(`process ${first.child.pid} on`)); // one is left
    first.child.stdin?.end();
    await first.ended;
    const later = start(folder, "later", 0);
    expect(await later.said).toBe("held");
    later.child.stdin?.end();
    await later.ended;
    expect(readdirSync(folder)).toEqual([]);
  });

  test("that come, go and die at once: never two runs in the folder, never a rank twice", async () => {
    const folder = newFolder();
    const inside = join(folder, "inside");
    mkdirSync(inside);
    const script = `
      import { readdirSync, readlinkSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
      const { RunLock } = await import(process.argv[1]);
      const [folder, inside, run, rank, id] = process.argv.slice(2);
      const mine = inside + "/" + run + "." + rank;
      let held = 0;
      for (let i = 0; i < 60; i++) {
        let lock;
        try { lock = RunLock.take(folder, { at: "x", busy: "is busy" }, { run, rank: Number(rank) }); }
        catch (error) { if (error.code !== "FOLDER_BUSY") throw error; continue; }
        held++;
        writeFileSync(mine, "", { flag: "wx" }); // fails where this rank is inside twice
        for (const end = performance.now() + 1; performance.now() < end; );
        const others = readdirSync(inside).filter((name) => !name.startsWith(run + "."));
        if (others.length > 0) throw new Error(run + " is inside with " + others);
        unlinkSync(mine);
        if (i % 3 > 0) lock.release();
        else { // its lock stays, as if it had been killed
          const path = folder + "/rank-" + rank;
          symlinkSync(readlinkSync(path).replace(/\\|\\d+\\|\\d*\\|([^|]*)$/, "|2147483646|1|$1"), path + "." + id);
          renameSync(path + "." + id, path);
        }
      }
      console.log(held);`;
    const places = ["a", "b"].flatMap((run) => [0, 1].flatMap((rank) => [0, 1].map((twin) => [run, String(rank), String(twin)])));
    const held = await Promise.all(places.map((place) => numberOf(script, [library, join(folder, "locked"), inside, ...place])));
    expect(held.filter((count) => count > 0).length).toBeGreaterThan(1);
  });
});
