"""The batches of lhotse's samplers on a made-up corpus, as digests: what test/golden/sampling/lhotse.json holds. Run by sampling.sh."""
import hashlib
import json
import random
import sys
import warnings

import lhotse
from lhotse import CutSet, MonoCut
from lhotse.dataset import BucketingSampler, DynamicBucketingSampler, DynamicCutSampler, SimpleCutSampler
from lhotse.dataset.sampling.base import TimeConstraint
from lhotse.dataset.sampling.dynamic_bucketing import FixedBucketBatchSizeConstraint

warnings.simplefilter("ignore")


def corpus(count):
    """Durations as of read speech and token counts, drawn by Python's generator: the test draws the same."""
    draw = random.Random(42)
    items = []
    for _ in range(count):
        duration = round((0.5 + 29.5 * draw.random() ** 2) * 1000) / 1000
        items.append((duration, round(duration * (1 + 5 * draw.random()))))
    return items


def cuts_of(items):
    cuts = []
    for i, (duration, tokens) in enumerate(items):
        cuts.append(MonoCut(id=str(i), start=0, duration=duration, channel=0, supervisions=[], custom={"tokens": tokens}))
    return CutSet.from_cuts(cuts)


def place_2d(bins, duration, tokens, strict):
    """Strict: the first group of bins that is long enough decides; lenient: any bin that takes both."""
    first = next((i for i, (d, _) in enumerate(bins) if duration <= d), None)
    if first is None:
        return len(bins)
    for i in range(first, len(bins)):
        if strict and bins[i][0] != bins[first][0]:
            break
        if tokens <= bins[i][1]:
            return i
    return len(bins)


class Constraint2d(FixedBucketBatchSizeConstraint):
    strict = True

    def measure_length(self, example):
        return example.duration, example.tokens

    def select_bucket(self, buckets, example=None, example_len=None):
        duration, tokens = self.measure_length(example) if example_len is None else example_len
        return place_2d(self.max_seq_len_buckets, duration, tokens, self.strict)


class Lenient2d(Constraint2d):
    strict = False


def bucketing(cuts, options):
    options = dict(options)
    bins, sizes = options.pop("durationBins", None), options.pop("bucketBatchSize", None)
    strict, bounds, joined = options.pop("strict2d", True), options.pop("bounds", None), options.pop("concatenateCuts", False)
    keep = None
    arguments = dict(
        num_buckets=options.get("numBuckets", 10),
        num_cuts_for_bins_estimate=options.get("numCutsForBinsEstimate", 10000),
        buffer_size=options.get("bufferSize", 20000),
        sync_buckets=options.get("syncBuckets", True),
        duration_bins=bins,
        **common(options),
    )
    if sizes and isinstance(bins[0], list):
        bins = [tuple(one) for one in bins]
        arguments["duration_bins"] = bins
        arguments["constraint"] = (Constraint2d if strict else Lenient2d)(bins, sizes)
        keep = lambda cut: place_2d(bins, cut.duration, cut.tokens, strict) < len(bins)
    elif sizes:
        arguments["constraint"] = FixedBucketBatchSizeConstraint(bins, sizes)
        keep = lambda cut: cut.duration <= bins[-1]
    elif joined:
        arguments["constraint"] = TimeConstraint(max_duration=options["maxDuration"], concatenate_cuts=True)
    else:
        arguments.update(limits(options))
    sampler = DynamicBucketingSampler(cuts, **arguments)
    if keep:
        sampler.filter(keep)
    if bounds:
        sampler.filter(lambda cut: bounds.get("minDuration", 0) <= cut.duration <= bounds.get("maxDuration", 1e9))
    return sampler


def limits(options):
    names = {"maxDuration": "max_duration", "maxCuts": "max_cuts", "quadraticDuration": "quadratic_duration"}
    return {python: options[name] for name, python in names.items() if name in options}


def common(options):
    return dict(shuffle=options.get("shuffle", False), drop_last=options.get("dropLast", False), seed=options.get("seed", 0), world_size=options.get("worldSize", 1), rank=options["rank"])


def sampler_for(cuts, options):
    kind = options["kind"]
    if kind == "bucketing":
        return bucketing(cuts, {name: value for name, value in options.items() if name != "kind"})
    if kind == "dynamic":
        return DynamicCutSampler(cuts, shuffle_buffer_size=options.get("bufferSize", 20000), **limits(options), **common(options))
    if kind == "simple":
        return SimpleCutSampler(cuts, **limits(options), **common(options))
    return BucketingSampler(cuts, num_buckets=options["numBuckets"], **limits(options), **common(options))


def digest(cuts, options, epochs):
    """SHA-256 over the ids of every batch of every rank and epoch."""
    steps = []
    for epoch in epochs:
        for rank in range(options.get("worldSize", 1)):
            sampler = sampler_for(cuts, {**options, "rank": rank})
            sampler.set_epoch(epoch)
            steps.append([[int(cut.id.split("_")[0]) for cut in batch] for batch in sampler])
    text = json.dumps(steps, separators=(",", ":"))
    return {"batches": sum(map(len, steps)), "items": sum(len(batch) for one in steps for batch in one), "sha256": hashlib.sha256(text.encode()).hexdigest()}


bins_2d = [[3, 6], [3, 12], [8, 20], [8, 40], [16, 45], [16, 80], [30, 100], [30, 180]]
settings = {
    "1-D": {"kind": "bucketing", "maxDuration": 100, "numBuckets": 10, "bufferSize": 1000, "shuffle": True, "seed": 3},
    "1-D in order, with a number of cuts": {"kind": "bucketing", "maxDuration": 150, "maxCuts": 12, "numBuckets": 7, "bufferSize": 500},
    "1-D, all buffered": {"kind": "bucketing", "maxDuration": 200, "numBuckets": 30, "shuffle": True},
    "1-D, dropping the last": {"kind": "bucketing", "maxDuration": 100, "numBuckets": 10, "bufferSize": 800, "shuffle": True, "dropLast": True},
    "bins given": {"kind": "bucketing", "maxDuration": 120, "durationBins": [2, 4, 8, 16], "bufferSize": 600, "shuffle": True},
    "2-D": {"kind": "bucketing", "durationBins": bins_2d, "bucketBatchSize": [40, 36, 16, 14, 8, 7, 4, 3], "bufferSize": 900, "shuffle": True},
    "2-D, lenient": {"kind": "bucketing", "durationBins": bins_2d, "bucketBatchSize": [40, 36, 16, 14, 8, 7, 4, 3], "strict2d": False, "bufferSize": 900},
    "quadratic": {"kind": "bucketing", "maxDuration": 150, "quadraticDuration": 15, "numBuckets": 10, "bufferSize": 1000, "shuffle": True},
    "fixed batch sizes": {"kind": "bucketing", "durationBins": [3, 6, 12, 20], "bucketBatchSize": [32, 16, 8, 5], "bufferSize": 1000, "shuffle": True},
    "3 ranks": {"kind": "bucketing", "maxDuration": 100, "numBuckets": 10, "bufferSize": 1000, "shuffle": True, "worldSize": 3},
    "3 ranks, dropping the last": {"kind": "bucketing", "maxDuration": 100, "numBuckets": 10, "bufferSize": 1000, "shuffle": True, "worldSize": 3, "dropLast": True},
    "ranks without sync": {"kind": "bucketing", "maxDuration": 100, "numBuckets": 10, "bufferSize": 1000, "shuffle": True, "worldSize": 2, "syncBuckets": False},
    "without sync, in order": {"kind": "bucketing", "maxDuration": 100, "numBuckets": 5, "bufferSize": 1000, "syncBuckets": False, "dropLast": True},
    "filtered after the bins": {"kind": "bucketing", "maxDuration": 100, "numBuckets": 10, "bufferSize": 1000, "shuffle": True, "bounds": {"minDuration": 2, "maxDuration": 20}},
    "joined cuts": {"kind": "bucketing", "maxDuration": 100, "concatenateCuts": True, "numBuckets": 10, "bufferSize": 1000, "shuffle": True},
    "dynamic": {"kind": "dynamic", "maxDuration": 100, "bufferSize": 500, "shuffle": True, "seed": 5},
    "dynamic, small buffer, 4 ranks": {"kind": "dynamic", "maxDuration": 80, "quadraticDuration": 20, "bufferSize": 3, "shuffle": True, "worldSize": 4},
    "dynamic in order, buffer of everything": {"kind": "dynamic", "maxCuts": 9, "shuffle": True, "dropLast": True},
    "dynamic in order": {"kind": "dynamic", "maxDuration": 60},
    "simple": {"kind": "simple", "maxDuration": 100, "shuffle": True, "seed": 11},
    "simple in order, 3 ranks": {"kind": "simple", "maxDuration": 90, "maxCuts": 10, "worldSize": 3},
    "static": {"kind": "static", "maxDuration": 100, "numBuckets": 10, "shuffle": True, "seed": 2},
    "static, 2 ranks": {"kind": "static", "maxDuration": 100, "numBuckets": 7, "shuffle": True, "worldSize": 2, "dropLast": True},
    "static in order": {"kind": "static", "maxCuts": 8, "numBuckets": 4},
}
epochs = [0, 1]
count = 4001
cuts = cuts_of(corpus(count))
few = cuts_of(corpus(10))
result = {
    "lhotse": lhotse.__version__,
    "command": "bash scripts/interop/sampling.sh --record",
    "count": count,
    "epochs": epochs,
    "cases": {name: {"options": options, **digest(cuts, options, epochs)} for name, options in settings.items()},
    "few": {"count": 10, "options": {"kind": "dynamic", "maxCuts": 1, "worldSize": 7}, **digest(few, {"kind": "dynamic", "maxCuts": 1, "worldSize": 7}, [0])},
}
json.dump(result, sys.stdout, indent=1)
print()
