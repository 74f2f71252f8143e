"""Compares what NeMo's own readers read with what serac reads of the same datasets, and prints what was compared. Called by nemo-read.sh."""

import hashlib
import io
import json
import logging
import os
import subprocess
import sys
import tarfile

os.environ.setdefault("WANDB_MODE", "disabled")
import lhotse
import nemo
import numpy as np
import soundfile
from nemo.collections.asr.data import audio_to_text
from nemo.collections.asr.data.audio_to_text_dataset import calc_bucketing_batch_sizes, get_tarred_dataset
from nemo.collections.common.data.dataset import ConcatDataset
from nemo.collections.common.data.lhotse.indexed_adapters import IndexedTarSampleReader, create_tar_index
from nemo.collections.common.data.lhotse.nemo_adapters import LazyNeMoIterator, LazyNeMoTarredIterator
from nemo.collections.common.prompts import canary as canary1
from nemo.collections.common.prompts import canary2
from nemo.utils import logging as nemo_logging
from omegaconf import OmegaConf

nemo_logging.setLevel(logging.ERROR)
work = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
rate = 16000
failures = 0


def say(what, good, detail):
    global failures
    failures += not good
    print(f"{'same  ' if good else 'DIFFER'}  {what}: {detail}", flush=True)


def serac(command, argument):
    out = subprocess.run(["node", os.path.join(here, "nemo-read.mjs"), command, json.dumps(argument)], capture_output=True, text=True)
    if out.returncode != 0:
        raise RuntimeError(out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()]


def convert(*args):
    out = subprocess.run([f"{root}/bin/serac", "tar", "--max_duration=20", "--workers=1", *args], capture_output=True, text=True)
    if out.returncode != 0:
        raise RuntimeError(out.stderr)


def sha(samples):
    return hashlib.sha256(np.ascontiguousarray(samples, dtype="float32").tobytes()).hexdigest()


# A corpus: files of 2 to 4 s with texts of letters, some of them with segments.
letters = list(" abcdefghijklmnopqrstuvwxyz")
rng = np.random.default_rng(0)
os.makedirs(f"{work}/wav/deep.er", exist_ok=True)
lines, segments = [], []
for i in range(24):
    samples = (rng.standard_normal(int(rate * rng.uniform(2, 4))) * 0.1).astype("float32")
    path = f"{work}/wav/{'deep.er/utt.' if i % 2 else 'u'}{i}.wav"
    soundfile.write(path, samples, rate, subtype="PCM_16")
    word = "".join(rng.choice(letters[1:], 8))
    line = {"audio_filepath": path, "duration": len(samples) / rate, "text": f"text {word}", "lang": "en" if i % 3 else "de", "snr": i / 7}
    lines.append(line)
    for k in range(i % 4):
        segments.append({**line, "offset": k * 0.5, "duration": 0.4 + i / 100, "text": f"part {word} {letters[k + 1]}"})
for name, some in [("train", lines), ("segments", segments)]:
    with open(f"{work}/{name}.json", "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in some)


def by_lhotse(target, shards, single=False):
    """Text, language, samples and manifest keys of NeMo's lhotse reader."""
    manifest = f"{target}/tarred_audio_manifest.json" if single else f"{target}/sharded_manifests/manifest__OP_0..{shards - 1}_CL_.json"
    found = []
    for cut in LazyNeMoTarredIterator(manifest, f"{target}/audio__OP_0..{shards - 1}_CL_.tar"):
        [supervision] = cut.supervisions
        found.append((supervision.text, supervision.language, sha(cut.load_audio()[0])))
    return found


def by_legacy(target, shards, world_size=1, rank=0, **more):
    """Text and samples of NeMo's reader without lhotse."""
    dataset = audio_to_text.TarredAudioToCharDataset(
        audio_tar_filepaths=f"{target}/audio__OP_0..{shards - 1}_CL_.tar",
        manifest_filepath=f"{target}/tarred_audio_manifest.json",
        labels=letters, sample_rate=rate, world_size=world_size, global_rank=rank, shuffle_n=0, **more,
    )  # fmt: skip
    found = [("".join(letters[t] for t in tokens.tolist()), sha(signal.numpy())) for signal, _, tokens, _ in dataset]
    return found, len(dataset)


def ours(target, shards, single=False, **more):
    manifest = f"{target}/tarred_audio_manifest.json" if single else f"{target}/sharded_manifests/manifest__OP_0..{shards - 1}_CL_.json"
    return serac("utterances", {"manifest": manifest, "tars": f"{target}/audio__OP_0..{shards - 1}_CL_.tar", **more})


def compare(label, target, shards, legacy=True):
    mine = ours(target, shards)
    theirs = by_lhotse(target, shards)
    say(f"{label}, LazyNeMoTarredIterator", [(u["text"], u["lang"], u["samples"]) for u in mine] == theirs, f"{len(theirs)} cuts in order: text, language, every sample")
    say(f"{label}, one manifest", by_lhotse(target, shards, single=True) == theirs and [u["samples"] for u in ours(target, shards, single=True)] == [t[2] for t in theirs], f"{len(theirs)} cuts")
    if not legacy:
        return
    found, length = by_legacy(target, shards)
    say(f"{label}, TarredAudioToCharDataset", [(u["text"], u["samples"]) for u in mine] == found and length == len(mine), f"{len(found)} utterances in order, and the length")
    for rank in range(2):
        scattered = ours(target, shards, strategy="scatter", worldSize=2, rank=rank, allowUneven=True)
        found, _ = by_legacy(target, shards, world_size=2, rank=rank, shard_strategy="scatter")
        say(f"{label}, scatter, rank {rank} of 2", [(u["text"], u["samples"]) for u in scattered] == found, f"{len(found)} utterances")
    durations = sorted(u["entry"]["duration"] for u in mine)
    low, high = durations[len(durations) // 5], durations[-len(durations) // 5]
    filtered, length = by_legacy(target, shards, min_duration=low, max_duration=high)
    kept = ours(target, shards, minDuration=low, maxDuration=high)
    say(f"{label}, filtered by duration", [(u["text"], u["samples"]) for u in kept] == filtered and length == len(kept), f"{len(filtered)} utterances, and the length")


# 1. Datasets of serac's.
convert(f"--manifest_path={work}/train.json", f"--target_dir={work}/plain", "--num_shards=3")
compare("serac tar", f"{work}/plain", 3)
convert(f"--manifest_path={work}/train.json", f"--target_dir={work}/flac", "--num_shards=4", "--shuffle", "--shuffle_seed=1", "--sort_in_shards", "--force_codec=flac")
compare("serac tar, FLAC", f"{work}/flac", 4)
convert(f"--manifest_path={work}/segments.json", f"--target_dir={work}/slices", "--num_shards=2", "--slice_with_offset")
compare("serac tar, slices", f"{work}/slices", 2)
# Repeated files: NeMo's reader without lhotse does not find -sub entries, and lhotse's yields them in the order of their names.
convert(f"--manifest_path={work}/segments.json", f"--target_dir={work}/repeats", "--num_shards=2")
theirs, mine = by_lhotse(f"{work}/repeats", 2), [(u["text"], u["lang"], u["samples"]) for u in ours(f"{work}/repeats", 2)]
say("serac tar, -sub entries, LazyNeMoTarredIterator", sorted(theirs) == sorted(mine), f"{len(theirs)} cuts, in any order: text, language, every sample")

# 2. Datasets of NeMo's converter.
script = os.environ.get("SERAC_NEMO_SCRIPT")
if script:
    for name, some, args in [("plain", "train", []), ("shuffled", "train", ["--shuffle", "--shuffle_seed=7"]), ("slices", "segments", ["--slice_with_offset", "--force_codec=flac"])]:
        target = f"{work}/nemo-{name}"
        out = subprocess.run([sys.executable, script, f"--manifest_path={work}/{some}.json", f"--target_dir={target}", "--num_shards=3", "--max_duration=20", "--dynamic_buckets_num=4", *args], capture_output=True, text=True)
        if out.returncode != 0:
            print(f"        NeMo's converter {' '.join(args)} fails: {out.stderr.strip().splitlines()[-1]}")
        else:
            compare(f"NeMo's converter {' '.join(args)}".strip(), target, 3)

# 3. Manifests without tars.
theirs = [(c.supervisions[0].text, c.duration, c.start or None, c.supervisions[0].language) for c in LazyNeMoIterator(f"{work}/segments.json")]
mine = [(c["text"], round(c["duration"], 8), c["offset"] or None, c["lang"]) for c in serac("cuts", {"manifest": f"{work}/segments.json"})]
say("LazyNeMoIterator", mine == theirs, f"{len(theirs)} cuts: text, duration to 8 digits, offset, language")
files = audio_to_text.AudioToCharDataset(f"{work}/train.json", labels=letters, sample_rate=rate)
theirs = sorted((s.audio_file, s.duration) for s in files.manifest_processor.collection)
mine = sorted((c["audioPath"], c["duration"]) for c in serac("cuts", {"manifest": f"{work}/train.json"}))
say("AudioToCharDataset", mine == theirs, f"{len(theirs)} utterances: path, duration")

# 4. Patterns and ranks.
specs = ["/d/audio_{0..7}.tar", "/d/audio__OP_1..9_CL_.tar", "/d/audio_(00..11).tar", "/d/b[1..2]/audio_<0..3>.tar", "/d/audio_{0..10..3}.tar", "/d/{a,b}_{x,y}.tar"]
cases = [{"spec": s, "strategy": t, "worldSize": w, "rank": r} for s in specs for t in ("scatter", "replicate") for w in (1, 2, 3, 5) for r in range(w)]
theirs = [audio_to_text.expand_sharded_filepaths(c["spec"], c["strategy"], c["worldSize"], c["rank"]) for c in cases]
say("expand_sharded_filepaths", serac("shards", cases) == theirs, f"{len(cases)} cases of pattern, strategy and rank")

# 5. Indices: each of the other's.
with tarfile.open(f"{work}/pairs.tar", "w") as archive:
    for i, line in enumerate(lines[:8]):
        for name, data in [(f"{i}.json", json.dumps(line).encode()), (f"{i}.wav", open(line["audio_filepath"], "rb").read())]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
create_tar_index(f"{work}/pairs.tar", f"{work}/theirs.idx")
serac("utterances", {"tars": f"{work}/pairs.tar", "access": "random"})  # builds the index
say("create_tar_index", open(f"{work}/theirs.idx", "rb").read() == open(f"{work}/pairs.tar.idx", "rb").read(), "the .idx of both, byte for byte")
reader = IndexedTarSampleReader(f"{work}/pairs.tar", f"{work}/pairs.tar.idx")
say("IndexedTarSampleReader on serac's index", [reader[i].json_data["text"] for i in range(len(reader))] == [line["text"] for line in lines[:8]], f"{len(reader)} samples")
for i in range(3):
    create_tar_index(f"{work}/plain/audio_{i}.tar", f"{work}/plain/audio_{i}.tar.idx")
say("serac on NeMo's indices", [u["samples"] for u in ours(f"{work}/plain", 3, access="random")] == [u["samples"] for u in ours(f"{work}/plain", 3)], "at random and in order")

# 6. Buckets and concatenation.
lengths = [900, 80, 20]
for technique, more in [("temperature", {"temperature": 5}), ("temperature", {"temperature": 2}), ("random", {"p": [0.2, 0.5, 0.3]}), ("round-robin", {})]:
    generator = {"temperature": ConcatDataset.temperature_generator, "random": ConcatDataset.random_generator, "round-robin": ConcatDataset.round_robin_generator}[technique]([range(n) for n in lengths], seed=11, **more)
    order = audio_to_text.RandomizedChainDataset([], rnd_seed=0).rnd_gen
    mine = serac("draws", {"lengths": lengths, "technique": technique, "temperature": more.get("temperature", 5), "probabilities": more.get("p"), "seed": 11, "count": 500, "buckets": 6, "epochs": 4, "size": 8})
    theirs = [[int(next(generator)) for _ in range(500)], [order.permutation(6).tolist() for _ in range(4)], calc_bucketing_batch_sizes({"batch_size": 1, "bucketing_batch_size": 8}, 6)]
    say(f"ConcatDataset, {technique} {more}; RandomizedChainDataset; bucketing_batch_size", mine == theirs, "500 draws; the order of 6 buckets in 4 epochs; their batch sizes")

# 7. Batches of a train_ds with buckets.
convert(f"--manifest_path={work}/train.json", f"--target_dir={work}/buckets", "--num_shards=2", "--buckets_num=3", "--min_duration=2", "--max_duration=4")
bucket = [f"{work}/buckets/bucket{i}" for i in (1, 2, 3)]
config = {
    "manifest_filepath": [[f"{b}/tarred_audio_manifest.json"] for b in bucket],
    "tarred_audio_filepaths": [[f"{b}/audio__OP_0..1_CL_.tar"] for b in bucket],
    "is_tarred": True, "sample_rate": rate, "batch_size": 1, "labels": letters, "shuffle": False,
}  # fmt: skip
for more in [
    {"bucketing_batch_size": 2, "bucketing_strategy": "fixed_order"},
    {"bucketing_batch_size": [4, 3, 1], "bucketing_strategy": "synced_randomized"},
    {"bucketing_batch_size": [4, 3, 1], "bucketing_weights": [1, 2, 1], "bucketing_strategy": "fixed_order"},
    {"bucketing_batch_size": 2, "bucketing_strategy": "fixed_order", "max_duration": 3.5, "min_duration": 2.1},
]:
    dataset = get_tarred_dataset(OmegaConf.create({**config, **more}), shuffle_n=0, global_rank=0, world_size=1)
    theirs = [[["".join(letters[t] for t in sample[2].tolist()) for sample in batch] for batch in dataset] for _ in range(2)]
    mine = [serac("batches", {"config": {**config, **more, "tarred_shard_strategy": "scatter"}, "epoch": epoch}) for epoch in range(2)]
    say(f"get_tarred_dataset, {', '.join(f'{k}: {v}' for k, v in more.items())}", mine == theirs, f"{sum(map(len, theirs))} batches of two epochs, text by text")

# 8. Canary: what writeCanary writes means the same to NeMo as what serac read.
cases, wanted = [], []
base = {"source_lang": "en", "target_lang": "de"}
for key in ("pnc", "itn", "timestamp", "diarize"):
    for yes, spellings in [(True, ["yes", "Yes", "true", "True", "1", key, f"<|{key}|>", True, 1]), (False, ["no", "No", "false", "False", "0", f"no{key}", f"<|no{key}|>", False, 0])]:
        for spelling in spellings:
            cases.append({"line": {**base, key: spelling}, "version": "v2"})
            wanted.append((key, f"<|{'' if yes else 'no'}{key}|>"))
for emotion in ("undefined", "neutral", "angry", "happy", "sad"):
    for spelling in (emotion, f"<|emo:{emotion}|>"):
        cases.append({"line": {**base, "emotion": spelling}, "version": "v2"})
        wanted.append(("emotion", f"<|emo:{emotion}|>"))
optional = {"decodercontext": "", "emotion": "<|emo:undefined|>", "itn": "<|noitn|>", "timestamp": "<|notimestamp|>", "diarize": "<|nodiarize|>", "pnc": "<|pnc|>"}
slots = canary2.Canary2PromptFormatter.TEMPLATE["user"]["slots"]
good = 0
for written, (key, token) in zip(serac("canary", cases), wanted):
    values = {**optional, **written}
    allowed = all(not hasattr(slots[k], "allowed_values") or v in slots[k].allowed_values for k, v in values.items() if k in slots)
    good += allowed and canary2.map_manifest_values_to_special_tokens(values)[key] == token
say("writeCanary, canary2", good == len(cases), f"{good} of {len(cases)} spellings allowed by NeMo's prompt format and mapped to the token that was meant")
cases = [{"line": {**base, "task": task, "pnc": pnc}, "version": "v1"} for task in ("asr", "transcribe", "<|transcribe|>", "ast", "translate", "<|translate|>", "s2t_translation") for pnc in ("yes", "Yes", False, "nopnc")]
good = 0
for written, case in zip(serac("canary", cases), cases):
    tokens = canary1.map_manifest_values_to_special_tokens(written)
    good += tokens["task"] == ("<|transcribe|>" if case["line"]["task"] in ("asr", "transcribe", "<|transcribe|>") else "<|translate|>")
    good += tokens["pnc"] == ("<|pnc|>" if case["line"]["pnc"] in ("yes", "Yes") else "<|nopnc|>")
say("writeCanary, canary", good == 2 * len(cases), f"{good} slots of {len(cases)} lines mapped to the token that was meant")

print(f"nemo-toolkit {nemo.__version__}, lhotse {lhotse.__version__}, Python {sys.version.split()[0]}; {failures} differences")
sys.exit(1 if failures else 0)
