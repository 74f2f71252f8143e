/** A small Fourier transform and convolution by it, in double precision. */

/**
 * In place, radix 2.
 * @param re real parts; the length is a power of two
 * @param im imaginary parts, of the same length
 * @param inverse without the factor 1 / n
 */
export function fft(re: Float64Array, im: Float64Array, inverse = false): void {
  const n = re.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [re[i], re[j]] = [re[j] as number, re[i] as number];
      [im[i], im[j]] = [im[j] as number, im[i] as number];
    }
  }
  const sign = inverse ? 1 : -1;
  const cos = new Float64Array(n / 2);
  const sin = new Float64Array(n / 2);
  for (let k = 0; k < n / 2; k++) {
    cos[k] = Math.cos((2 * Math.PI * k) / n);
    sin[k] = sign * Math.sin((2 * Math.PI * k) / n);
  }
  for (let half = 1; half < n; half *= 2) {
    const stride = n / (2 * half);
    for (let start = 0; start < n; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const a = start + k;
        const b = a + half;
        const c = cos[k * stride] as number;
        const s = sin[k * stride] as number;
        const x = (re[b] as number) * c - (im[b] as number) * s;
        const y = (re[b] as number) * s + (im[b] as number) * c;
        re[b] = (re[a] as number) - x;
        im[b] = (im[a] as number) - y;
        re[a] = (re[a] as number) + x;
        im[a] = (im[a] as number) + y;
      }
    }
  }
}

/** @returns the full convolution, a.length + b.length - 1 samples; none when either is empty */
export function convolve(a: Float32Array, b: Float32Array): Float32Array {
  if (a.length === 0 || b.length === 0) return new Float32Array(0);
  const length = a.length + b.length - 1;
  let n = 1;
  while (n < length) n *= 2;
  // Both real signals in one complex transform: a in the real part, b in the imaginary one.
  const re = new Float64Array(n);
  const im = new Float64Array(n);
  re.set(a);
  im.set(b);
  fft(re, im);
  const pr = new Float64Array(n);
  const pi = new Float64Array(n);
  for (let k = 0; k < n; k++) {
    const j = (n - k) % n;
    // With Z = A + iB: A B = (Z_k^2 - conj(Z_j)^2) / 4i
    const [zr, zi, wr, wi] = [re[k] as number, im[k] as number, re[j] as number, -(im[j] as number)];
    const dr = zr * zr - zi * zi - (wr * wr - wi * wi);
    const di = 2 * (zr * zi - wr * wi);
    pr[k] = di / 4;
    pi[k] = -dr / 4;
  }
  fft(pr, pi, true);
  return Float32Array.from({ length }, (_, i) => (pr[i] as number) / n);
}
