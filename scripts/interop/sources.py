"""Compares serac's sources, stored features, Shar folders and corpus preparation with lhotse's, both ways. Run by sources.sh."""
import gzip
import itertools
import json
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import soundfile as sf

warnings.filterwarnings("ignore")
from lhotse import CutSet, Fbank, FbankConfig, RecordingSet, SupervisionSet, combine, validate
from lhotse.features.io import LilcomChunkyWriter, LilcomFilesWriter, NumpyFilesWriter
from lhotse.lazy import LazyInfiniteApproximateMultiplexer, LazyIteratorMultiplexer, LazyRepeater
from lhotse.recipes import prepare_librispeech, prepare_musan

root = Path(__file__).resolve().parents[2]
work = Path(tempfile.mkdtemp(prefix="serac-interop-"))
rng = np.random.default_rng(0)
checks = 0


def check(condition, message):
    global checks
    checks += 1
    if not condition:
        raise SystemExit(f"differs: {message}")


def node(*args):
    return subprocess.run(["node", str(root / "scripts/interop/sources.mjs"), *map(str, args)], check=True, capture_output=True, text=True).stdout


def serac(*args):
    return subprocess.run([str(root / "bin/serac"), *map(str, args)], check=True, capture_output=True, text=True).stdout


def sound(path, samples):
    path.parent.mkdir(parents=True, exist_ok=True)
    t = np.arange(samples) / 16000
    wave = sum(0.1 * np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) for f in rng.uniform(100, 6000, 5)) + rng.normal(size=samples) * 0.01
    sf.write(path, wave.astype("float32"), 16000, subtype="PCM_16")


def lines(path):
    with gzip.open(path, "rt") as f:
        return [json.loads(line) for line in f]


# Corpora as downloaded.
for part, chapter, sizes in [("train-clean-5", "103/1240", [16000, 20001, 8003, 96007]), ("dev-clean-2", "84/121123", [30011])]:
    base = chapter.replace("/", "-")
    for i, samples in enumerate(sizes):
        sound(work / "LibriSpeech" / part / chapter / f"{base}-{i:04d}.flac", samples)
    (work / "LibriSpeech" / part / chapter / f"{base}.trans.txt").write_text("".join(f"{base}-{i:04d} WORDS OF {i}\n" for i in range(len(sizes))))
for name, samples in [("music/fma/music-fma-0000.wav", 16000 * 27 + 5), ("noise/free-sound/noise-free-sound-0000.wav", 16000 * 6), ("speech/us-gov/speech-us-gov-0000.wav", 16000 * 3)]:
    sound(work / "musan" / name, samples)
(work / "musan/music/fma/ANNOTATIONS").write_text("music-fma-0000 classical,baroque N Some_One\n")

serac("prepare", "librispeech", work / "LibriSpeech", "--out-dir", work / "ours")
serac("prepare", "musan", work / "musan", "--out-dir", work / "ours")

# The same by lhotse and icefall's steps.
extractor = Fbank(FbankConfig(num_mel_bins=80))
theirs = prepare_librispeech(work / "LibriSpeech", output_dir=work / "theirs")
stored = {}
for part, manifests in theirs.items():
    for kind, of in (("recordings", RecordingSet), ("supervisions", SupervisionSet)):
        ours = sorted(lines(work / f"ours/manifests/librispeech_{kind}_{part}.jsonl.gz"), key=lambda one: one["id"])
        other = sorted(lines(work / f"theirs/librispeech_{kind}_{part}.jsonl.gz"), key=lambda one: one["id"])
        check(ours == other, f"librispeech_{kind}_{part}: {ours[0]} and {other[0]}")
        check(of.from_file(work / f"ours/manifests/librispeech_{kind}_{part}.jsonl.gz") is not None, kind)
    cuts = CutSet.from_manifests(
        recordings=RecordingSet.from_file(work / f"ours/manifests/librispeech_recordings_{part}.jsonl.gz"),
        supervisions=SupervisionSet.from_file(work / f"ours/manifests/librispeech_supervisions_{part}.jsonl.gz"),
    )
    if "train" in part:
        cuts = cuts + cuts.perturb_speed(0.9) + cuts.perturb_speed(1.1)
    stored[part] = cuts.to_eager().compute_and_store_features(extractor, work / f"theirs/feats_{part}", num_jobs=1, storage_type=LilcomChunkyWriter)
musan = prepare_musan(work / "musan", output_dir=work / "theirs")
for part in ("music", "speech", "noise"):
    check(lines(work / f"ours/manifests/musan_recordings_{part}.jsonl.gz") == lines(work / f"theirs/musan_recordings_{part}.jsonl.gz"), part)
check(lines(work / "ours/manifests/musan_supervisions_music.jsonl.gz") == lines(work / "theirs/musan_supervisions_music.jsonl.gz"), "musan supervisions")
stored["musan"] = (
    CutSet.from_manifests(recordings=combine(one["recordings"] for one in musan.values()))
    .cut_into_windows(10.0)
    .filter(lambda cut: cut.duration > 5)
    .to_eager()
    .compute_and_store_features(extractor, work / "theirs/feats_musan", num_jobs=1, storage_type=LilcomChunkyWriter)
)

worst = 0.0
for part, cuts in stored.items():
    path = work / ("ours/fbank/musan_cuts.jsonl.gz" if part == "musan" else f"ours/fbank/librispeech_cuts_{part}.jsonl.gz")
    ours = {cut.id: cut for cut in CutSet.from_file(path)}
    check(set(ours) == {cut.id for cut in cuts}, f"ids of {part}: {sorted(ours)} and {sorted(cut.id for cut in cuts)}")
    for cut in cuts:
        own = ours[cut.id]
        validate(own, read_data=True)
        a, b = own.to_dict(), cut.to_dict()
        for one in (a, b):
            for key in ("storage_path", "storage_key"):
                one["features"].pop(key)
        check(a == b, f"{cut.id}: {a} and {b}")
        x, y = own.load_features(), cut.load_features()
        check(x.shape == y.shape, f"frames of {cut.id}")
        worst = max(worst, float(np.abs(x - y).max()))
check(worst <= 2**-4, f"features differ by {worst}")
print(f"serac prepare: the cuts of lhotse's recipes, features within {worst:.4f}")

# Their features in every kind of storage, and their Shar, read here.
train = stored["train-clean-5"]
configs = {}
train.to_file(work / "chunky.jsonl.gz")
configs["lilcom_chunky"] = {"cuts_path": str(work / "chunky.jsonl.gz")}
for name, writer in (("lilcom_files", LilcomFilesWriter), ("numpy_files", NumpyFilesWriter)):
    copied = train.drop_features().compute_and_store_features(extractor, work / name, num_jobs=1, storage_type=writer)
    copied.to_file(work / f"{name}.jsonl")
    configs[name] = {"cuts_path": str(work / f"{name}.jsonl")}
windows = train.cut_into_windows(0.7).to_eager()
windows.to_file(work / "windows.jsonl.gz")
configs["stretches of chunks"] = {"cuts_path": str(work / "windows.jsonl.gz")}
for audio, features in (("wav", "lilcom"), ("flac", "numpy")):
    folder = work / f"shar-{audio}"
    folder.mkdir()
    train.to_shar(folder, fields={"recording": audio, "features": features}, shard_size=5)
    configs[f"Shar of {audio} and {features}"] = {"shar_path": str(folder)}
for name, config in configs.items():
    path = work / "config.json"
    path.write_text(json.dumps(config))
    found = [json.loads(line) for line in node("read", path).splitlines()]
    expected = list(CutSet.from_file(config["cuts_path"]) if "cuts_path" in config else CutSet.from_shar(in_dir=config["shar_path"]))
    check(len(found) == len(expected), name)
    for ours, cut in zip(found, expected):
        check(ours["id"] == cut.id and abs(ours["duration"] - cut.duration) < 1e-9, f"{name}: {ours} and {cut.id}, {cut.duration}")
        features = cut.load_features()
        check(ours["frames"] == features.shape[0], f"{name}: frames of {cut.id}")
        check(abs(ours["featureSum"] - float(features.astype("float64").sum())) < 1e-3 * features.size, f"{name}: features of {cut.id}")
        audio = cut.load_audio()[0].astype("float64")
        check(ours["samples"] == len(audio), f"{name}: samples of {cut.id}: {ours['samples']} and {len(audio)}")
        check(abs(ours["energy"] - float((audio**2).sum())) < 0.02 * ours["energy"] + 1e-3, f"{name}: audio of {cut.id}")
    print(f"lhotse's {name}: {len(found)} cuts read alike")

# Our Shar, read there.
path.write_text(json.dumps({"cuts_path": str(work / "ours/fbank/librispeech_cuts_train-clean-5.jsonl.gz")}))
for audio, features in (("flac", "lilcom"), ("wav", "numpy")):
    folder = work / f"our-shar-{audio}"
    node("shar", path, folder, audio, features)
    originals = {cut.id: cut for cut in CutSet.from_file(work / "ours/fbank/librispeech_cuts_train-clean-5.jsonl.gz")}
    back = list(CutSet.from_shar(in_dir=folder))
    check(len(back) == len(originals), "cuts in our Shar")
    for cut in back:
        other = originals[cut.id]
        check(cut.supervisions[0].text == other.supervisions[0].text, cut.id)
        check(np.abs(cut.load_features() - other.load_features()).max() < 2**-5, f"features of {cut.id} in our Shar")
        a, b = cut.load_audio(), other.load_audio()
        check(a.shape == b.shape and np.abs(a - b).max() < 2e-3, f"audio of {cut.id} in our Shar")
    print(f"serac's Shar of {audio} and {features}: {len(back)} cuts read by lhotse")

# Mixtures.
for seed in range(5):
    sizes = [int(n) for n in rng.integers(1, 40, 4)]
    weights = [float(w) for w in rng.uniform(0.1, 5, 4)]
    items = [[f"{k}-{i}" for i in range(n)] for k, n in enumerate(sizes)]
    for infinite, limit in ((False, None), (True, None), (True, 2)):
        if not infinite:
            expected = list(LazyIteratorMultiplexer(*items, weights=weights, seed=seed))
        elif limit is None:
            expected = list(itertools.islice(LazyIteratorMultiplexer(*map(LazyRepeater, items), weights=weights, seed=seed), 500))
        else:
            expected = list(itertools.islice(LazyInfiniteApproximateMultiplexer(*items, weights=weights, seed=seed, max_open_streams=limit), 500))
        path.write_text(json.dumps({"sizes": sizes, "weights": weights, "seed": seed, "count": len(expected), "infinite": infinite, "open": limit}))
        check(json.loads(node("mux", path)) == expected, f"mux {sizes} {weights} {seed} {infinite} {limit}")
print("mixtures draw as lhotse's do")
shutil.rmtree(work)
print(f"{checks} checks")
