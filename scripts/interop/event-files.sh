#!/usr/bin/env bash
# Shows that TensorBoard reads serac's event files: every tag, step and value, of a file that was written whole and of one that was cut.
# Needs Python with PyPI's tensorboard. usage: bash scripts/interop/event-files.sh   (SERAC_PYTHON: the interpreter, python3 by default)
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${SERAC_PYTHON:-python3}
npm run --silent build:js
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
node --input-type=module - "$folder" <<'JS' >"$folder/ours.json"
import { EventFile } from "./build/js/formats/index.js";
const file = new EventFile(`${process.argv[2]}/log`);
const tags = ["train/current_loss", "train/learning_rate", "train/valid_ctc_loss"];
const expected = Object.fromEntries(tags.map((tag) => [tag, []]));
for (let step = 0; step < 2000; step += 50) {
  const scalars = Object.fromEntries(tags.map((tag, i) => [tag, Math.fround(Math.exp(-step / 300) * (i + 0.1))]));
  file.add(scalars, step);
  for (const [tag, value] of Object.entries(scalars)) expected[tag].push([step, value]);
}
file.close();
console.log(JSON.stringify(expected));
JS
"$python" scripts/interop/event-files.py read "$folder/log" >"$folder/theirs.json"
"$python" - "$folder/ours.json" "$folder/theirs.json" <<'PY'
import json, sys
ours, theirs = (json.load(open(path)) for path in sys.argv[1:])
assert ours == theirs, "TensorBoard reads something else"
print(f"TensorBoard reads the same: {len(ours)} tags, {sum(map(len, ours.values()))} scalars")
PY
event=$(ls "$folder"/log/events.*)
truncate -s -7 "$event"
"$python" scripts/interop/event-files.py read "$folder/log" >"$folder/cut.json"
"$python" - "$folder/ours.json" "$folder/cut.json" <<'PY'
import json, sys
ours, cut = (json.load(open(path)) for path in sys.argv[1:])
assert sum(map(len, cut.values())) == sum(map(len, ours.values())) - 1, "more than the cut record is lost"
print("of a file whose last record was cut, TensorBoard reads all others")
PY
