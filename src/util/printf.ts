/** Numbers as C prints them, and Python. */

/** C's %.Ng: at most N digits, without zeros at the end. */
export function general(value: number, digits: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const [mantissa, exponent] = rounded(value, digits)
    .toExponential(digits - 1)
    .split("e") as [string, string];
  const power = Number(exponent);
  const trim = (text: string): string => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power < -4 || power >= digits) return `${trim(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  return trim(rounded(value, digits).toFixed(Math.max(0, digits - 1 - power)));
}

/** A float as Python prints it where that needs no exponent: 2.0, 0.5. */
export const pythonFloat = (value: number): string => (Number.isInteger(value) ? value.toFixed(1) : String(value));

/** JavaScript rounds a tie away from zero, C to the even digit: so a tie is moved off its middle. */
function rounded(value: number, digits: number): number {
  const exact = value.toExponential(100).replace(/^-?(\d)\.(\d+)e.*$/, "$1$2");
  const isTie = /^50*$/.test(exact.slice(digits));
  return isTie && Number(exact[digits - 1]) % 2 === 0 ? value * (1 - 2 ** -50) : value;
}
