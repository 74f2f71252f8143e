/** Which instructions serac's own kernels use: the best that the CPU has, or fewer, by SERAC_ISA. */
import { ConfigError } from "../util/errors.ts";

/**
 * Checks what SERAC_ISA asks for.
 * @param wanted its value; absent or empty for the best
 * @param available what the CPU has, the best last
 * @throws ConfigError CONFIG_BAD_VALUE when it is none of those
 */
export function checkIsa(wanted: string | undefined, available: readonly string[]): string {
  const best = available.at(-1) ?? "plain";
  if (wanted === undefined || wanted === "" || available.includes(wanted)) return wanted || best;
  throw new ConfigError("CONFIG_BAD_VALUE", {
    at: "SERAC_ISA",
    message: `this CPU has no instructions called ${JSON.stringify(wanted)}, it has ${available.join(", ")}`,
    fix: `set SERAC_ISA to one of those, or unset it, which means ${best}`,
  });
}
