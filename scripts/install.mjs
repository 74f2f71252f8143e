// npm's install hook. In a checkout it does nothing (`npm run setup` does). As a dependency it builds the native addons where
// tools and libraries are there, and otherwise says what will not work; it never fails an installation.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
if (existsSync(join(root, "src"))) process.exit(0);

const result = spawnSync(process.execPath, [join(root, "scripts", "build-native.mjs"), "--quiet"], { stdio: ["ignore", "inherit", "inherit"] });
const lost = [
  ["serac_torch.node", "training, decoding and transcription"],
  ["serac_media.node", "audio other than WAV, features and tokenizers"],
].filter(([file]) => !existsSync(join(root, "build", "native", file)));
if (result.status !== 0 || lost.length > 0) {
  for (const [, what] of lost) console.error(`serac: will not work yet: ${what}`);
  console.error("serac: everything else does. `npx serac doctor` says what is missing; afterwards run: npm rebuild serac");
}
