"""Prints the golden numbers of loading: lhotse's augmentation, batches and SpecAugment on fixed draws, as test/golden/loading.json keeps them."""
import json
import os
import random
import re
import tempfile

import lhotse.augmentation.torchaudio
import numpy as np
import soundfile as sf
import torch
from lhotse import CutSet, Fbank, FbankConfig
from lhotse.audio import Recording
from lhotse.augmentation.resample import Resample
from lhotse.cut import MonoCut
from lhotse.dataset import K2SpeechRecognitionDataset, SpecAugment
from lhotse.dataset.cut_transforms import CutConcatenate
from lhotse.dataset.input_strategies import OnTheFlyFeatures
from lhotse.features.mixer import FeatureMixer
from lhotse.supervision import AlignmentItem, SupervisionSegment
from lhotse.utils import compute_num_windows

# Resampling as with torchaudio, whose kernel lhotse brings along; without torchaudio it would fall back to SciPy's.
lhotse.augmentation.torchaudio.is_torchaudio_available = lambda: True
RATE = 16000
folder = tempfile.mkdtemp()
out = {}


def wave(n, phase=0.0, scale=0.3):
    i = np.arange(1, n + 1, dtype=np.float64)
    return (scale * (np.sin(0.07 * i + phase) + 0.3 * np.cos(0.000013 * i * i + phase))).astype(np.float32)


def recording(name, samples):
    path = os.path.join(folder, name + ".wav")
    sf.write(path, samples, RATE, subtype="FLOAT")
    return Recording.from_file(path, recording_id=name)


def cut_of(name, samples, spans=None):
    cut = recording(name, samples).to_cut()
    cut.id = name
    spans = spans or [(0, cut.duration, f"text {name}")]
    cut.supervisions = [
        SupervisionSegment(id=f"{name}-{i}", recording_id=name, start=start, duration=duration, text=text, channel=0)
        for i, (start, duration, text) in enumerate(spans)
    ]
    return cut


def pick(samples):
    x = np.asarray(samples, dtype=np.float64).reshape(-1)
    return dict(n=len(x), values=[float(v) for v in x[::97]], energy=float(np.sum(x * x)))


def spans_of(cut):
    return [[s.start, s.duration, s.text] for s in cut.supervisions]


a, b = cut_of("a", wave(12345, 0.1, 0.3)), cut_of("b", wave(7001, 0.5, 0.2))
n1, n2 = cut_of("n1", wave(5003, 1.0, 0.7)), cut_of("n2", wave(9001, 2.0, 0.05))
i = np.arange(800)
response = (np.exp(-i / 120.0) * np.sin(0.9 * i + 0.4)).astype(np.float32)
response[7] = 1.0
rir = recording("rir", response)

for factor in (0.9, 1.1):
    cut = a.perturb_speed(factor)
    out[f"speed{factor}"] = dict(duration=cut.duration, sup=[cut.supervisions[0].start, cut.supervisions[0].duration], **pick(cut.load_audio()))
out["volume"] = pick(a.perturb_volume(0.37).load_audio())
for normalize in (True, False):
    out[f"reverb_{normalize}"] = pick(a.reverb_rir(rir, normalize_output=normalize).load_audio())
out["reverb_early"] = pick(a.reverb_rir(rir, early_only=True).load_audio())


def with_noises(cut, snr, duration):
    return cut.mix(n1, snr=snr).mix(n2, snr=snr, offset_other_by=n1.duration).truncate(duration=duration)


for name, mixed in (("mix", with_noises(a, 12.5, a.duration)), ("mix_longer", with_noises(b, 5.0, 0.7))):
    out[name] = dict(duration=mixed.duration, **pick(mixed.load_audio()))
out["mix_asis"] = pick(a.mix(n1, snr=None).load_audio())
out["loudness"] = {name: pick(cut.normalize_loudness(-25.0).load_audio()) for name, cut in (("a", a), ("b", b), ("n1", n1))}
loud = recording("loud", np.concatenate([wave(30000, 0.3, 0.02), np.zeros(8000, np.float32), wave(40000, 0.9, 0.5)])).to_cut()
out["loudness"]["gated"] = pick(loud.normalize_loudness(-20.0).load_audio())
out["lowpass"] = {str(hz): pick(a.resample(2 * hz).resample(RATE).load_audio()) for hz in (3000, 4751)}
out["clip"] = {
    f"{hard} {gain} {normalize} {times}": pick(a.clip_amplitude(hard=hard, gain_db=gain, normalize=normalize, oversampling=times or None).load_audio())
    for hard, gain, normalize, times in ((True, 12.0, True, 2), (False, 6.5, True, 2), (False, 20.0, False, 0), (True, 0.05, True, 4))
}
row = a.pad(a.duration + 0.25).append(b)
out["append"] = dict(duration=row.duration, sups=spans_of(row), **pick(row.load_audio()))
for direction in ("left", "right", "both"):
    padded = b.pad(0.61, direction=direction)
    out[f"pad_{direction}"] = dict(duration=padded.duration, sups=[s[:2] for s in spans_of(padded)], **pick(padded.load_audio()))



def portable(cut, name):
    """The line of a cut, with FOLDER for where its files lie, and without random ids."""
    return re.sub("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "random", json.dumps({**cut.to_dict(), "id": name}).replace(folder, "FOLDER"))


overlapping = a.mix(n2, snr=6.0, offset_other_by=0.21).mix(b, offset_other_by=0.4)
reference = n1.mix(a, snr=None, offset_other_by=0.1)
reference.tracks[0].snr, reference.tracks[0].is_snr_reference = 9.0, False
reference.tracks[1].is_snr_reference = True
muted = a.mix(n1, snr=3.0).mix(n2, snr=8.0, offset_other_by=0.3)
muted.tracks[1].mute = True
mixed_cuts = dict(
    noise=with_noises(a, 12.5, a.duration),
    overlapping=overlapping,
    after_silence=b.pad(0.61, direction="left").mix(n1, snr=4.0),
    reference=reference,
    muted=muted,
    reverberated=with_noises(a, 10.0, a.duration).reverb_rir(rir, mix_first=True),
    transformed=a.perturb_speed(1.1).perturb_volume(0.5).mix(n2.perturb_volume(2.0), snr=15.0),
    part=a.perturb_speed(0.9).perturb_volume(1.5).truncate(offset=0.2, duration=0.5),
    row=row,
)
out["mixed_cuts"] = {
    name: dict(line=portable(cut, name), duration=cut.duration, sups=spans_of(cut), **pick(cut.load_audio())) for name, cut in mixed_cuts.items()
}

spoken = cut_of("w", wave(int(2.35 * RATE), 0.3, 0.4), [(0.0, 0.6, "one"), (0.65, 0.5, "two"), (1.2, 1.1, "three")])
part = spoken.truncate(offset=0.5, duration=1.0)
out["truncate"] = dict(duration=part.duration, sups=spans_of(part), **pick(part.load_audio()))
out["truncate_strict"] = dict(sups=spans_of(spoken.truncate(offset=0.5, duration=1.0, keep_excessive_supervisions=False)))
for window, hop in ((1.0, None), (1.0, 0.5), (0.5, 0.8)):
    out[f"windows_{window}_{hop}"] = [dict(id=w.id, start=w.start, duration=w.duration, sups=sorted(spans_of(w))) for w in spoken.cut_into_windows(window, hop)]
lengths = [(1, 6.1, 3), (3, 1, 6.1), (3, 6.1, 1), (5.9, 1, 3), (5.9, 3, 1), (6.1, 1, 3), (6.1, 3, 1), (5.9, 3, 3), (6.1, 3, 3), (9, 3, 3), (2.35, 0.5, 0.8)]
out["num_windows"] = [[*length, compute_num_windows(*length)] for length in lengths]
out["resample"] = {
    f"{old}-{new}": pick(Resample(old, new)(torch.from_numpy(wave(4321, 0.2, 0.5))[None]).numpy()) for old, new in ((8000, 16000), (44100, 16000), (48000, 16000))
}


def silent(name, duration):
    source = Recording(id=name, sources=[], sampling_rate=RATE, num_samples=int(duration * RATE), duration=duration)
    supervision = SupervisionSegment(id=name, recording_id=name, start=0, duration=duration, text=name)
    return MonoCut(id=name, start=0, duration=duration, channel=0, recording=source, supervisions=[supervision])


durations = [10.0, 3.0, 2.5, 9.0, 1.0, 1.0, 4.25, 6.5, 0.5, 8.0, 2.0]
out["concatenate"] = dict(durations=durations, cases=[])
for settings in (dict(gap=1.0), dict(gap=0.1), dict(gap=0.5, duration_factor=1.5), dict(gap=1.0, max_duration=12.0)):
    rows = CutConcatenate(**settings)(CutSet.from_cuts([silent(f"c{i}", d) for i, d in enumerate(durations)]))
    out["concatenate"]["cases"].append(
        dict(
            **settings,
            rows=[[s.id for s in cut.supervisions] for cut in rows],
            durations=[cut.duration for cut in rows],
            starts=[[s.start for s in cut.supervisions] for cut in rows],
        )
    )

extractor = Fbank(FbankConfig(num_filters=80))
cuts = [
    cut_of("x1", wave(int(1.27 * RATE), 0.1), [(0.0, 1.27, "first")]),
    cut_of("x2", wave(int(2.035 * RATE), 0.2), [(0.1, 0.9, "second"), (1.1, 0.93, "third")]),
    cut_of("x3", wave(int(0.5 * RATE), 0.3), [(0.0, 0.5, "fourth")]),
]
for supervision in (s for cut in cuts for s in cut.supervisions):
    supervision.alignment = {"word": [AlignmentItem(symbol=supervision.text, start=supervision.start + 0.05, duration=0.2)]}
batch = K2SpeechRecognitionDataset(return_cuts=True, input_strategy=OnTheFlyFeatures(extractor, use_batch_extract=False))[CutSet.from_cuts(cuts)]
inputs, supervisions = batch["inputs"].numpy(), batch["supervisions"]
out["batch"] = dict(
    shape=list(inputs.shape),
    values=[float(v) for v in inputs.reshape(-1)[::997]],
    **{name: supervisions[name].tolist() for name in ("sequence_idx", "start_frame", "num_frames")},
    text=supervisions["text"],
    cut=[cut.id for cut in supervisions["cut"]],
    **{name: supervisions[name] for name in ("word", "word_start", "word_end")},
)

mixer = FeatureMixer(extractor, base_feats=extractor.extract(wave(16000, 0.1, 0.3), RATE), frame_shift=0.01)
mixer.add_to_mix(extractor.extract(wave(6400, 1.0, 0.7), RATE), sampling_rate=RATE, snr=11.0)
mixer.add_to_mix(extractor.extract(wave(8000, 2.0, 0.05), RATE), sampling_rate=RATE, snr=11.0, offset=0.4)
out["mix_features"] = dict(shape=list(mixer.mixed_feats.shape), values=[float(v) for v in mixer.mixed_feats.reshape(-1)[::101]])


def scripted(segments, coins, warps, widths, starts, frames=120, bins=20):
    """SpecAugment on draws that were written down instead of drawn."""
    i = np.arange(1, frames * bins + 1, dtype=np.float64)
    features = torch.from_numpy((3 * np.sin(0.07 * i) + np.cos(0.00013 * i * i)).astype(np.float32).reshape(1, frames, bins))
    left = [list(coins), list(warps), list(widths), list(starts)]
    kept = random.random, np.random.randint, torch.randint, torch.rand
    random.random = lambda: left[0].pop(0)
    np.random.randint = lambda low, high: left[1].pop(0)
    torch.randint = lambda low, high, shape: torch.tensor([[left[2].pop(0) for _ in range(shape[1])]])
    torch.rand = lambda rows, count: torch.tensor([[left[3].pop(0) for _ in range(count)]])
    try:
        augment = SpecAugment(
            time_warp_factor=10, num_feature_masks=2, features_mask_size=9, num_frame_masks=3, frames_mask_size=12, max_frames_mask_fraction=0.3, p=0.9
        )
        result = augment(features, supervision_segments=torch.tensor([[0, *segment] for segment in segments], dtype=torch.int32))
    finally:
        random.random, np.random.randint, torch.randint, torch.rand = kept
    assert not any(left), left
    values = [float(v) for v in result.reshape(-1)[::11]]
    return dict(T=frames, F=bins, segments=segments, coins=coins, warps=warps, widths=widths, starts=starts, values=values)


halves = [[0, 60], [60, 50]]
out["specAugment"] = dict(
    segments=scripted(halves, [0.5, 0.5, 0.2], [30, 24, 20, 27], [4, 6, 3, 0, 11], [0.25, 0.5, 0.1, 0.5, 0.875]),
    coins=scripted(halves, [0.95, 0.5, 0.91], [20, 27], [], []),
)


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, (list, tuple)) else value


print(json.dumps(rounded(out)))
