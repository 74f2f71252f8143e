/** Names of users and groups by number, from /etc/passwd and /etc/group: what tar headers hold beside the numbers. */
import { readFileSync } from "node:fs";

function readNames(path: string): Map<number, string> {
  const names = new Map<number, string>();
  let text = "";
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return names; // a system without the file: headers then hold numbers alone
  }
  for (const line of text.split("\n")) {
    const [name, , id] = line.split(":");
    if (name && id && /^\d+$/.test(id) && !names.has(Number(id))) names.set(Number(id), name);
  }
  return names;
}

let users: Map<number, string> | undefined;
let groups: Map<number, string> | undefined;

/** @returns the user's name; "" where it has none */
export function userName(uid: number): string {
  users ??= readNames("/etc/passwd");
  return users.get(uid) ?? "";
}

/** @returns the group's name; "" where it has none */
export function groupName(gid: number): string {
  groups ??= readNames("/etc/group");
  return groups.get(gid) ?? "";
}
