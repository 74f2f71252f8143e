/** Where this package lies on disk: the same from `src/` and from `build/js/`. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { internal } from "./errors.ts";

function findPackageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) internal("no package.json above the code");
    folder = parent;
  }
  return folder;
}

/** The folder that holds package.json. */
export const packageRoot = findPackageRoot();

/** The folder of the native addons; SERAC_NATIVE_DIR names another, for addons that were built against another libtorch. */
export const nativeFolder = process.env["SERAC_NATIVE_DIR"] || join(packageRoot, "build", "native");
