"""What serac converts, read by lhotse and Python, and what they write, read by serac.

usage: bash scripts/interop/manifests.sh AUDIO_FOLDER
Prints a line for each thing compared and ends with 1 where one differs.
"""
import gzip, json, random, struct, subprocess, sys, tempfile
from pathlib import Path

import numpy as np
import soundfile as sf
from lhotse import CutSet
from lhotse.kaldi import load_kaldi_data_dir

root = Path(__file__).resolve().parents[2]
failed = 0


def check(what, good):
    global failed
    failed += not good
    print(("same   " if good else "DIFFERS"), what)


def serac(*args):
    subprocess.run(["node", str(root / "bin" / "serac"), "manifest", *map(str, args)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def rows(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def random_value(rng, depth=0):
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind == 0:
        return struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
    if kind == 1:
        return rng.choice([1.0, -0.0, 1e-05, 1e16, 123456789012345.678, 1e22, 0.1, 5e-324, 100.5, float("inf"), rng.uniform(0, 30), round(rng.uniform(0, 30), 3)])
    if kind == 2:
        return rng.choice([0, -1, 2**53, 2**53 + 1, 10**30, rng.randrange(10**6)])
    if kind == 3:
        return rng.choice([True, False, None])
    if kind < 7:
        return "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0, 32), rng.randrange(0xA0, 0x2100), rng.randrange(0x1F600, 0x1F650), 0x7F, 0x2028])) for _ in range(rng.randrange(12)))
    if kind == 7:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {str(rng.choice([rng.randrange(20), "key", "é", "__proto__", ""])) : random_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def main(audio):
    files = sorted(p for p in Path(audio).iterdir() if p.suffix in (".wav", ".flac"))[:40]
    if not files:
        sys.exit(f"{audio} holds no WAV or FLAC files")
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)

        # 1. json.dump(ensure_ascii=False), byte for byte
        source, out = folder / "values.jsonl", folder / "values.out.jsonl"
        values = [{"audio_filepath": "/x.wav", "v": random_value(rng), "w": random_value(rng)} for _ in range(20000)]
        source.write_text("".join(json.dumps(v, ensure_ascii=True, separators=(",", ":")) + "\n" for v in values), encoding="utf-8")
        serac("convert", source, out, "--paths", "keep")
        expected = "".join(json.dumps(json.loads(line), ensure_ascii=False) + "\n" for line in source.read_text(encoding="utf-8").splitlines())
        check(f"{len(values)} random lines written as json.dump(ensure_ascii=False) writes them", out.read_bytes() == expected.encode("utf-8"))

        # 2. a manifest of whole files and of segments
        entries = []
        for i, path in enumerate(files):
            info = sf.info(str(path))
            entry = {"audio_filepath": str(path), "duration": info.duration, "text": f"text {i} \u00e9", "lang": "en", "speaker": f"s{i % 3}", "snr": i / 4, "tags": ["a", i]}
            if i % 3 == 2:
                entry.update(offset=round(info.duration / 4, 3), duration=round(info.duration / 2, 3))
            entries.append(entry)
        manifest = folder / "manifest.jsonl"
        manifest.write_text("".join(json.dumps(e, ensure_ascii=False) + "\n" for e in entries), encoding="utf-8")

        def samples(entry):
            data, rate = sf.read(entry["audio_filepath"], dtype="float32")
            start = round(entry.get("offset", 0) * rate)
            return data[start : start + round(entry["duration"] * rate)]

        def same_audio(cut, entry, tolerance=0.0):
            got, want = cut.load_audio()[0], samples(entry)
            return got.shape == want.shape and float(np.abs(got - want).max()) <= tolerance

        def same_fields(cut, entry):
            (s,) = cut.supervisions
            return s.text == entry["text"] and s.language == entry["lang"] and s.speaker == entry["speaker"] and cut.custom["snr"] == entry["snr"] and cut.custom["tags"] == entry["tags"]

        cuts_path = folder / "manifest.cuts.jsonl.gz"
        serac("convert", manifest, cuts_path)
        cuts = list(CutSet.from_file(cuts_path))
        from lhotse.qa import validate
        validate(CutSet.from_cuts(cuts), read_data=True)
        check(f"{len(cuts)} cuts pass lhotse.validate(read_data=True)", len(cuts) == len(entries))
        check("texts, languages, speakers and custom keys of the cuts", all(map(same_fields, cuts, entries)))
        check("audio of the cuts, sample by sample", all(map(same_audio, cuts, entries)))

        # 3. lhotse writes them again, serac reads: every key and value comes back
        again = folder / "again.cuts.jsonl.gz"
        CutSet.from_cuts(cuts).to_file(again)
        check("cuts as serac and as lhotse write them, byte for byte", gzip.open(again).read() == gzip.open(cuts_path).read())
        serac("convert", again, folder / "back.jsonl")
        check("manifest -> cuts -> lhotse -> manifest", rows(folder / "back.jsonl") == entries)

        # 4. Shar
        for audio_format in ("wav", "flac", "original"):
            shar = folder / f"shar_{audio_format}"
            serac("convert", manifest, shar, "--to", "shar", "--audio-format", audio_format, "--shard-size", 15)
            read = list(CutSet.from_shar(in_dir=str(shar)))
            check(f"Shar ({audio_format}) read by lhotse: {len(read)} cuts, fields and audio", len(read) == len(entries) and all(map(same_fields, read, entries)) and all(same_audio(c, e, 1 / 32768) for c, e in zip(read, entries)))
        theirs = folder / "theirs"
        theirs.mkdir()
        CutSet.from_cuts(c.with_id(f"cut-{i}") for i, c in enumerate(cuts)).to_shar(str(theirs), fields={"recording": "wav"}, shard_size=15)
        serac("convert", theirs, folder / "theirs.jsonl")
        got = rows(folder / "theirs.jsonl")
        keys = ("text", "lang", "speaker", "snr", "tags")
        check("Shar written by lhotse read by serac: texts and keys", [[r[k] for k in keys] for r in got] == [[e[k] for k in keys] for e in entries])
        check("Shar written by lhotse read by serac: audio", all(np.abs(sf.read(str(folder / r["audio_filepath"]), dtype="float32")[0] - samples(e)).max() <= 1 / 32768 for r, e in zip(got, entries)))

        # 5. Kaldi
        serac("convert", manifest, folder / "kaldi", "--to", "kaldi")
        rate = sf.info(str(files[0])).samplerate
        recordings, supervisions, _ = load_kaldi_data_dir(folder / "kaldi", sampling_rate=rate)
        check(f"Kaldi folder read by lhotse: {len(recordings)} recordings, {len(supervisions)} supervisions", len(supervisions) == len(entries))
        want = sorted((e["text"], e["speaker"], round(e.get("offset", 0.0), 4), round(e["duration"], 3)) for e in entries)
        check("texts, speakers, starts and durations in it", sorted((s.text, s.speaker, round(s.start, 4), round(s.duration, 3)) for s in supervisions) == want)
        from lhotse.kaldi import export_to_kaldi
        export_to_kaldi(recordings, supervisions, folder / "kaldi_theirs")
        serac("convert", folder / "kaldi_theirs", folder / "kaldi.jsonl")
        got = sorted((e["text"], e["speaker"], round(e.get("offset", 0.0), 4), round(e["duration"], 3)) for e in rows(folder / "kaldi.jsonl"))
        check("Kaldi folder written by lhotse read by serac", got == want)
    print("all the same" if failed == 0 else f"{failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
