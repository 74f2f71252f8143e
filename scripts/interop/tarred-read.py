"""Compares serac's reading and writing of tars with WebDataset's, lhotse's and Python's, and prints what was compared. Called by tarred-read.sh."""

import hashlib
import json
import os
import random
import subprocess
import sys
import tarfile

import lhotse
import numpy as np
import soundfile
import webdataset
from braceexpand import braceexpand

work = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
failures = 0


def say(what, good, detail):
    global failures
    failures += not good
    print(f"{'same  ' if good else 'DIFFER'}  {what}: {detail}", flush=True)


def serac(*args, stdin=None):
    out = subprocess.run(["node", os.path.join(here, "tarred-read.mjs"), *args], input=stdin, capture_output=True, text=True)
    if out.returncode != 0:
        raise RuntimeError(out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()]


def sha(data):
    return hashlib.sha256(data).hexdigest()


# A corpus of noise of random lengths; two segments of one file among it.
rng = np.random.default_rng(0)
os.makedirs(f"{work}/wav/deep.er", exist_ok=True)
lines = []
for i in range(40):
    rate = 16000
    samples = (rng.standard_normal(int(rate * rng.uniform(0.1, 1.5))) * 0.1).astype("float32")
    path = f"{work}/wav/deep.er/utt.{i}.wav" if i % 2 else f"{work}/wav/{'long' * 40}{i}.wav"
    soundfile.write(path, samples, rate, subtype="PCM_16")
    lines.append({"audio_filepath": path, "duration": round(len(samples) / rate, 4), "text": f"text number {i} ä"})
lines.append({**lines[0], "duration": 0.05, "offset": 0.02, "text": "a segment"})
lines.append({**lines[0], "duration": 0.03, "offset": 0.04, "text": "another segment"})
with open(f"{work}/train.json", "w", encoding="utf-8") as f:
    for line in lines:
        f.write(json.dumps(line, ensure_ascii=False) + "\n")

# 1. Tars of serac's, read by WebDataset and by Python.
target = f"{work}/tarred"
subprocess.run([f"{root}/bin/serac", "tar", "--manifest_path", f"{work}/train.json", "--target_dir", target, "--num_shards", "3", "--max_duration", "20", "--workers", "1"], check=True, capture_output=True)
tars = [f"{target}/audio_{i}.tar" for i in range(3)]
mine = serac("members", *tars)
theirs = []
for sample in webdataset.WebDataset(tars, shardshuffle=False, empty_check=False):
    key = sample["__key__"]
    theirs += [(f"{key}.{suffix}", sha(data)) for suffix, data in sample.items() if not suffix.startswith("__")]
say("WebDataset reads serac's tars", [(m["name"], m["sha256"]) for m in mine] == theirs, f"{len(theirs)} members, names and SHA-256 of their bytes")
by_python = []
for path in tars:
    with tarfile.open(path) as archive:
        by_python += [(m.name, m.size, sha(archive.extractfile(m).read()), m.offset) for m in archive]
say("Python's tarfile reads serac's tars", [(m["name"], m["size"], m["sha256"], m["offset"]) for m in mine] == by_python, f"{len(by_python)} members: names, sizes, bytes, offsets")

# 2. The index that serac builds, against Python's offsets: NeMo's layout.
for path in tars:
    samples = serac("indexed", path)
    index = np.fromfile(path + ".idx", dtype="<u8")
    with tarfile.open(path) as archive:
        offsets = [m.offset for m in archive if m.isreg()]
    say(f"{os.path.basename(path)}.idx", index.tolist() == offsets + [os.path.getsize(path)], f"{len(index)} numbers: the offset of each sample's first header, then the size")
    say("  read last first", [s[0]["offset"] for s in samples] == offsets[::-1], f"{len(samples)} samples by offset")

# 3. What serac makes of its own dataset, against soundfile.
found = serac("utterances", f"{target}/audio__OP_0..2_CL_.tar", f"{target}/sharded_manifests/manifest__OP_0..2_CL_.json")
single = serac("utterances", f"{target}/audio__OP_0..2_CL_.tar", f"{target}/tarred_audio_manifest.json", "random")
say("sharded in order, single manifest at random", found == single, f"{len(found)} utterances, {len(lines)} lines")
wanted = {}
for line in lines:
    rate = 16000
    samples, _ = soundfile.read(line["audio_filepath"], dtype="float32")
    if "offset" in line:
        start = int(np.floor(line["offset"] * rate + 0.5))
        samples = samples[start : start + int(np.floor(line["duration"] * rate + 0.5))]
    wanted[line["text"]] = sha(samples.tobytes())
say("samples of every utterance, segments too, against soundfile", {u["text"]: u["samples"] for u in found} == wanted and len(found) == len(lines), f"{len(found)} utterances, float32 sample by sample")

# 4. Tars of WebDataset's, with json and txt, read by serac.
with webdataset.ShardWriter(f"{work}/wds-%06d.tar", maxcount=15, verbose=0) as sink:
    for i, line in enumerate(lines[:40]):
        sample = {"__key__": f"folder/{i:04d}", "wav": open(line["audio_filepath"], "rb").read()}
        sample |= {"json": {"text": line["text"], "duration": line["duration"]}} if i % 2 else {"txt": line["text"]}
        sink.write(sample)
found = serac("utterances", f"{work}/wds-{{000000..000002}}.tar")
say("serac reads WebDataset's tars", [(u["text"], u["samples"]) for u in found] == [(line["text"], wanted[line["text"]]) for line in lines[:40]], f"{len(found)} samples: text from json or txt, samples")
first = next(iter(webdataset.WebDataset([f"{work}/wds-000000.tar"], shardshuffle=False)))
say("  the first sample of both", sha(first["wav"]) == found[0]["sha256"], first["__key__"])

# 5. Every format of Python's tarfile, and its compressions.
names = ["a.wav", "x" * 180 + ".wav", "d/" * 40 + "f.wav", "ü日本.wav", "d" * 90 + "/" + "n" * 90 + ".wav"]
for form, label in [(tarfile.PAX_FORMAT, "PAX"), (tarfile.GNU_FORMAT, "GNU"), (tarfile.USTAR_FORMAT, "ustar")]:
    for mode in ["", "gz", "bz2", "xz"]:
        path = f"{work}/{label}.tar.{mode}".rstrip(".")
        with tarfile.open(path, f"w:{mode}", format=form) as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                data = rng.bytes(int(rng.integers(0, 5000)))
                info.size = len(data)
                try:
                    archive.addfile(info, __import__("io").BytesIO(data))
                except ValueError:
                    pass  # too long for ustar
        with tarfile.open(path) as archive:
            expected = [(m.name, m.size, sha(archive.extractfile(m).read()), m.offset) for m in archive]
        got = [(m["name"], m["size"], m["sha256"], m["offset"]) for m in serac("members", path)]
        say(f"{label} {mode or 'plain'}", got == expected, f"{len(got)} members of Python's tarfile")

# 6. lhotse's Shar: its tars read here, rewritten here, read by lhotse.
recordings = lhotse.RecordingSet.from_recordings(lhotse.Recording.from_file(line["audio_filepath"], recording_id=f"r{i}") for i, line in enumerate(lines[:20]))
cuts = lhotse.CutSet.from_manifests(recordings=recordings).to_eager()
os.makedirs(f"{work}/shar")
cuts.to_shar(f"{work}/shar", fields={"recording": "wav"}, shard_size=10, num_jobs=1, verbose=False)
found = serac("utterances", f"{work}/shar/recording.00000{{0,1}}.tar")
by_lhotse = [cut.load_audio()[0].astype("float32") for cut in lhotse.CutSet.from_shar(in_dir=f"{work}/shar")]
say("serac reads the tars of lhotse's Shar", [u["samples"] for u in found] == [sha(a.tobytes()) for a in by_lhotse], f"{len(found)} recordings, sample by sample")
for form in ["pax", "gnu", "ustar"]:
    for i in range(2):
        serac("rewrite", f"{work}/shar/recording.00000{i}.tar", f"{work}/shar-{form}-{i}.tar", form)
    again = lhotse.CutSet.from_shar(fields={"cuts": [f"{work}/shar/cuts.00000{i}.jsonl.gz" for i in range(2)], "recording": [f"{work}/shar-{form}-{i}.tar" for i in range(2)]})
    audio = [cut.load_audio()[0].astype("float32") for cut in again]
    say(f"lhotse reads Shar tars that serac rewrote as {form}", len(audio) == 20 and all((a == b).all() for a, b in zip(audio, by_lhotse)), f"{len(audio)} recordings")

# 7. Patterns, against braceexpand.
random.seed(1)
patterns = []
for _ in range(3000):
    number = lambda: random.choice(["", "-"]) + random.choice(["", "0", "00"]) + str(random.randint(0, 120))
    patterns.append(f"x{{{number()}..{number()}{random.choice(['', f'..{random.randint(-5, 5)}'])}}}y{{{random.choice(['a..f', 'Q..d', 'z..A..3', 'a,b', 'a,{1..3},', 'q'])}}}")
    text = "".join(random.choice(["{", "}", ",", "..", "1", "09", "a", "Z", "/"]) for _ in range(random.randint(1, 12)))
    if text.count("{") == text.count("}") and "}" not in text.split("{")[0]:
        patterns.append(text)
same = refused = 0
for pattern, got in zip(patterns, serac("braces", stdin=json.dumps(patterns))):
    try:
        expected = list(braceexpand(pattern, escape=False))
    except ValueError:
        expected = "SHARDS_BAD_PATTERN"
    same += got == expected
    refused += got == "SHARDS_BAD_PATTERN" and got != expected
say("patterns against braceexpand", same + refused == len(patterns), f"{same} of {len(patterns)} the same, {refused} with a brace before its partner refused here")

print(f"webdataset {webdataset.__version__}, lhotse {lhotse.__version__}, Python {sys.version.split()[0]}; {failures} differences")
sys.exit(1 if failures else 0)
