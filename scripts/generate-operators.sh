#!/usr/bin/env bash
# Writes src/torch/generated/ from the schemas of the libtorch that the addon is built against (Debian's 1.13.1).
set -euo pipefail
cd "$(dirname "$0")/.."
npx tsc -p tsconfig.build.json --incremental false >/dev/null || true # the generated files may be what does not compile
node --input-type=module -e '
  import { generate } from "./build/js/torch/generate.js";
  import { mkdirSync, writeFileSync } from "node:fs";
  mkdirSync("src/torch/generated", { recursive: true });
  for (const [name, text] of Object.entries(generate())) { writeFileSync("src/torch/generated/" + name, text); console.error("wrote src/torch/generated/" + name); }
'
