/** Numbers as Python spells them: repr() of a float, which json, YAML and tar headers of Python programs hold. */

/**
 * @returns repr() of a Python float: the shortest digits that read back, an exponent below 1e-4 and from 1e16 on, and always a point or an exponent
 * Source: CPython, Objects/floatobject.c (format code "r"): decimal point positions -4 < p <= 16 are written without an exponent.
 */
export function pythonFloat(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e16) {
    const text = String(value); // JavaScript has the same shortest digits, and no exponent within 1e-6 to 1e21
    return Number.isInteger(value) ? `${text}.0` : text;
  }
  const [digits, exponent] = value.toExponential().split("e") as [string, string];
  const power = Number(exponent);
  return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
