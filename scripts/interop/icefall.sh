#!/usr/bin/env bash
# Shows that icefall's own load_checkpoint, ScaledAdam and Eden go on from serac's checkpoints as serac does, and serac from icefall's.
# Needs a checkout of icefall and Python with torch and NumPy. usage: ICEFALL=DIR bash scripts/interop/icefall.sh   (SERAC_PYTHON: the interpreter, python3 by default)
set -euo pipefail
: "${ICEFALL:?name the folder of a checkout of icefall}"
cd "$(dirname "$0")/../.."
python=${SERAC_PYTHON:-python3}
npm run --silent build:js
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
node scripts/interop/icefall.mjs make "$folder/ours.pt"
"$python" scripts/interop/icefall.py "$ICEFALL" "$folder/ours.pt" "$folder/theirs.pt" "$folder"
failed=0
for name in ours theirs; do
  node scripts/interop/icefall.mjs go-on "$folder/$name.pt" "$folder/after-$name.safetensors" 5
  "$python" scripts/interop/icefall.py compare "$folder/after-$name.npz" "$folder/after-$name.safetensors" || failed=1
done
exit $failed
