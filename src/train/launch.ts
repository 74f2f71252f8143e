/** How this process was started: as one of several that shall train together, or by itself. */
import { ConfigError } from "../util/errors.ts";

/**
 * Each of several processes would train a whole run of its own, into the same folder.
 * @param env torchrun, and what follows it, sets WORLD_SIZE and RANK
 * @throws ConfigError CONFIG_BAD_VALUE where there are several
 */
export function refuseSeveralProcesses(env: Readonly<Record<string, string | undefined>> = process.env): void {
  const { WORLD_SIZE: size, RANK: rank } = env;
  if (!(Number(size) > 1)) return;
  throw new ConfigError("CONFIG_BAD_VALUE", {
    message: `the environment has WORLD_SIZE=${size}${rank === undefined ? "" : ` and RANK=${rank}`}: several processes, as torchrun starts them, are not built yet`,
    fix: "start one process without torchrun (or unset WORLD_SIZE); --replicas N trains on N threads of one CPU",
  });
}
