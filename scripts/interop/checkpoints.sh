#!/usr/bin/env bash
# Shows that files which `serac checkpoint convert` writes are to torch.load what the originals of torch.save are: types, order, bits, strides, shared storages.
# Needs Python with torch (Debian's python3-torch, or PyPI's). usage: bash scripts/interop/checkpoints.sh   (SERAC_PYTHON: the interpreter, python3 by default)
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${SERAC_PYTHON:-python3}
npm run --silent build:js
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" scripts/interop/checkpoints.py write "$folder/torch"
failed=0
for path in "$folder"/torch/*.pt; do
  name=$(basename "$path")
  [ "$name" != unknown.pt ] || continue # what is unknown cannot be written again
  node bin/serac checkpoint convert "$path" "$folder/$name" >/dev/null
  "$python" scripts/interop/checkpoints.py read "$path" >"$folder/theirs.json"
  "$python" scripts/interop/checkpoints.py read "$folder/$name" >"$folder/ours.json"
  if cmp -s "$folder/theirs.json" "$folder/ours.json"; then echo "$name: torch.load gives the same, $(wc -c <"$folder/ours.json") bytes of JSON"; else
    echo "$name: torch.load gives something else"
    failed=1
  fi
done
exit $failed
