import { describe, expect, test } from "vitest";
import { pairShards, shardNumber } from "../../../src/data/tarred/pairing.ts";

describe("shards", () => {
  test("numbers stand last in the file's name, before its suffixes; folders do not count", () => {
    expect(["b1/audio_12.tar", "manifest_007.json.gz", "audio_3.tar.bz2", "x2_audio_5_train.tar", "d_9/audio.tar", "shard-000010.tgz"].map(shardNumber)).toEqual([
      12,
      7,
      3,
      5,
      undefined,
      10,
    ]);
  });

  test("manifests are paired by their numbers, wherever they begin and in whatever order, and repeated numbers in turn", () => {
    expect(pairShards(["m_2.json", "m_1.json"], ["a_1.tar", "a_2.tar"]).manifestOf).toEqual([1, 0]);
    expect(pairShards(["x/m_0.json", "x/m_1.json", "y/m_0.json"], ["x/a_0.tar", "x/a_1.tar", "y/a_0.tar"]).manifestOf).toEqual([0, 1, 2]);
    expect(pairShards(["m.json"], ["a_0.tar", "a_1.tar"])).toEqual({ manifestOf: undefined, byName: false });
    expect(pairShards(["b.json", "a.json"], ["x.tar", "y.tar"]).manifestOf).toEqual([0, 1]);
  });

  test("what cannot be paired is refused, or left to the members' names where the caller allows it", () => {
    expect(() => pairShards(["m_0.json", "m_1.json", "m_3.json"], ["a_0.tar", "a_1.tar", "a_2.tar"])).toThrow(
      /tars 2 have no manifest .*; manifests 3 have no tar .*SHARDS_DIFFER/,
    );
    expect(() => pairShards(["a.json", "b.json"], ["x_0.tar", "x_1.tar", "x_2.tar"])).toThrow(/2 manifests and 3 tars/);
    expect(pairShards(["a.json", "b.json"], ["x_0.tar", "x_1.tar", "x_2.tar"], { allowByName: true })).toEqual({ manifestOf: undefined, byName: true });
  });
});
