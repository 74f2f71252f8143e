#!/usr/bin/env bash
# The demo: makes speech, trains a Zipformer on it, shows its word error rate, transcribes voices it has never heard.
# usage: npm run demo                                  strings of spoken digits, made on this machine
#        npm run demo -- DATA=FOLDER                   recordings: FOLDER has train.jsonl and test.jsonl (and valid.jsonl, if you like)
# also:  OUT=FOLDER (exp/demo)  SEED=N (1)  EPOCHS=N   HOURS=H of speech to make (1.7)
set -euo pipefail
cd "$(dirname "$0")/.."
caller=${INIT_CWD:-$PWD}

refuse() {
  echo "serac: $1. The demo takes DATA=FOLDER, OUT=FOLDER, SEED=N, EPOCHS=N, HOURS=H" >&2
  exit 2
}
DATA='' OUT='' SEED=1 EPOCHS='' HOURS=1.7
for argument in "$@"; do
  case $argument in
    ?*=?*) ;;
    *=) refuse "nothing is given for '$argument'" ;;
  esac
  case $argument in
    DATA=* | OUT=* | SEED=* | EPOCHS=* | HOURS=*) declare "${argument%%=*}=${argument#*=}" ;;
    *) refuse "the demo does not know '$argument'" ;;
  esac
done
absolute() { case $1 in /*) echo "$1" ;; *) echo "$caller/$1" ;; esac; }
[[ $SEED =~ ^[0-9]{1,9}$ ]] || refuse "SEED is '$SEED', not a whole number from 0"
[[ $EPOCHS =~ ^([1-9][0-9]{0,4})?$ ]] || refuse "EPOCHS is '$EPOCHS', not a whole number from 1"
[[ $HOURS =~ ^[0-9]*\.?[0-9]+$ && $HOURS =~ [1-9] ]] || refuse "HOURS is '$HOURS', not a number above 0"
if [ -n "$DATA" ]; then
  for name in train test; do
    path=$(absolute "$DATA")/$name.jsonl
    [ -e "$path" ] || refuse "$path is missing; DATA names a folder with train.jsonl and test.jsonl, NeMo manifests"
  done
fi
started=$SECONDS
threads=$(node -p "Math.min(4, os.availableParallelism())")
step() { printf '\n== %s (after %d min %02d s)\n' "$1" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) >&2; }

step "Setting up"
bash scripts/setup.sh
node_modules/.bin/tsc -p demo/tsconfig.json
serac() {
  echo "\$ serac $*" >&2
  node bin/serac "$@"
}

if [ -z "$DATA" ]; then
  out=$(absolute "${OUT:-exp/demo}")
  step "Making speech: strings of digits, by synthetic voices"
  installed=0
  bash demo/installSpeech.sh || installed=$?
  [ $installed -eq 0 ] || [ $installed -eq 3 ] || exit $installed
  node build/demo/demo/makeSpeech.js --out "$out/speech" --hours "$HOURS" --workers 2 $([ $installed -eq 0 ] || echo --main-only)
  train=$out/speech/train.jsonl
  valid=$out/speech/valid.jsonl
  tests=("$out/speech/test-synthetic.jsonl" "$out/speech/test-human.jsonl")
  epochs=${EPOCHS:-14}
  words=$((epochs > 2 ? 2 : epochs - 1)) # epochs of single words: what a word is comes before where it is
  plain=$((epochs > 3 ? 3 : epochs)) # epochs without masks, words included
  batch=20 mask=13
  title="Strings of spoken digits, learnt from synthetic voices"
else
  data=$(absolute "$DATA")
  out=$(absolute "${OUT:-exp/demo-$(basename "$data")}")
  mkdir -p "$out"
  train=$data/train.jsonl
  valid=$data/valid.jsonl
  if [ ! -e "$valid" ]; then
    node build/demo/demo/holdOut.js "$train" --every 40 --out "$out"
    train=$out/train.jsonl
    valid=$out/valid.jsonl
  fi
  tests=("$data/test.jsonl")
  epochs=${EPOCHS:-30}
  words=0
  plain=$((epochs < 8 ? epochs / 2 : 8)) # epochs without masks
  batch=30 mask=8
  title="Recordings in $data"
fi
exp=$out/exp-$SEED
# Parameters still move fast after so few updates: their average is ahead of the last ones. By the validation sets: 1 % for 3 %, 2 % for 4 %.
average=$((words > 0 ? 2 : (epochs + 2) / 3))
decoding=(--decoding-method ctc-greedy-search --exp-dir "$exp" --epoch "$epochs" --avg "$average")
# The last epoch of a run that was ended half-way, or 0.
last_epoch() {
  local epoch=0
  while [ -e "$exp/epoch-$((epoch + 1)).pt" ]; do epoch=$((epoch + 1)); done
  echo $epoch
}

step "Training the tokenizer"
[ "$(last_epoch)" -gt 0 ] && [ -e "$out/bpe.model" ] || serac bpe train --manifest "$train" --model-type bpe --vocab-size 60 --out "$out/bpe.model"

# A small model for two cores. Schedules that icefall counts in hundreds of hours are scaled down: --ref-duration, --warm-step, --lr-batches,
# --lr-epochs. Until the network has found the words, masks (SpecAugment) only hide them from it.
# usage: train_until EPOCH SHORTEST LONGEST SPECAUG: goes on from the last epoch there is, with utterances of so many seconds
train_until() {
  local last
  last=$(last_epoch)
  [ "$last" -lt "$1" ] || return 0
  serac train --train-manifest "$train" --valid-manifest "$valid" --bpe-model "$out/bpe.model" --exp-dir "$exp" --seed "$SEED" \
    --start-epoch $((last + 1)) --num-epochs "$1" --min-utterance "$2" --max-utterance "$3" --wer-interval $((epochs > 12 ? 5 : 3)) \
    --sample-rate 8000 --feature-dim 40 --max-duration "$batch" --num-buckets 6 --drop-last 0 --speed-perturb 1 --enable-spec-aug "$4" --spec-aug-features-mask-size "$mask" \
    --num-encoder-layers 3 --downsampling-factor 2 --encoder-dim 96 --encoder-unmasked-dim 80 --feedforward-dim 256 \
    --num-heads 4 --query-head-dim 16 --value-head-dim 12 --cnn-module-kernel 15 --front-end-channels 8,16,32 \
    --use-transducer 0 --use-ctc 1 --ref-duration 1.5 --warm-step 200 --lr-batches 1000 --lr-epochs $(((epochs + 3) / 4)) \
    --average-period 20 --valid-interval 100000 --log-interval 50 --threads "$threads" --replicas "$threads"
}

step "Training a Zipformer, $epochs epochs"
[ "$words" -eq 0 ] || train_until "$words" 0.1 0.9 0
shortest=$([ "$words" -gt 0 ] && echo 0.9 || echo 0.1)
train_until "$plain" "$shortest" 20 0
train_until "$epochs" "$shortest" 20 1

step "Recognising the test sets"
serac decode --threads "$threads" "${decoding[@]}" --manifest "$(IFS=,; echo "${tests[*]}")" --json >"$out/decoded.json"
# Three utterances: the first and the last of the first set, and one of the last set.
mapfile -t examples < <(node -e '
  const { readFileSync } = require("node:fs"), { dirname, resolve } = require("node:path");
  const sets = process.argv.slice(1).map((path) => readFileSync(path, "utf8").trim().split("\n").map((line) => resolve(dirname(path), JSON.parse(line).audio_filepath)));
  console.log([sets[0][0], sets[0].at(-1), sets.at(-1)[Math.floor(sets.at(-1).length / 2)]].join("\n"));' "${tests[@]}")
serac transcribe "${decoding[@]}" --json "${examples[@]}" >"$out/transcripts.jsonl"

step "Results"
node build/demo/demo/summarise.js --title "$title" --exp-dir "$exp" --out "$out/results.json" --decoded "$out/decoded.json" --transcripts "$out/transcripts.jsonl" \
  --next "bin/serac transcribe ${decoding[*]} YOUR.wav" \
  --next "bin/serac decode ${decoding[*]} --manifest ${tests[0]}" \
  --next "npm run demo -- DATA=FOLDER   # the same on your recordings: train.jsonl and test.jsonl" "${tests[@]}"
node build/demo/demo/showReport.js "$out/results.json" --html "$out/report.html"
printf 'Took %d min %02d s.\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) >&2
