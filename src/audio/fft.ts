/** A small Fourier transform and convolution by it, in double precision. */

interface Twiddles {
  cos: Float64Array;
  sin: Float64Array;
}

/** Of the lengths that were used last. */
const made = new Map<number, Twiddles>();

function twiddlesOf(n: number): Twiddles {
  let twiddles = made.get(n);
  if (twiddles) return twiddles;
  twiddles = { cos: new Float64Array(n / 2), sin: new Float64Array(n / 2) };
  for (let k = 0; k < n / 2; k++) {
    twiddles.cos[k] = Math.cos((2 * Math.PI * k) / n);
    twiddles.sin[k] = Math.sin((2 * Math.PI * k) / n);
  }
  if (made.size >= 4) made.clear();
  made.set(n, twiddles);
  return twiddles;
}

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
  const { cos, sin } = twiddlesOf(n);
  for (let half = 1; half < n; half *= 2) {
    const stride = n / (2 * half);
    for (let start = 0; start < n; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const a = start + k;
        const b = a + half;
        const c = cos[k * stride] as number;
        const s = sign * (sin[k * stride] as number);
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

/**
 * The longer signal goes through in blocks (overlap and add), two at a time: one in the real part of a transform, one in the imaginary part, which a real
 * kernel keeps apart.
 * @returns the full convolution, a.length + b.length - 1 samples; none when either is empty
 */
export function convolve(a: Float32Array, b: Float32Array): Float32Array {
  if (a.length === 0 || b.length === 0) return new Float32Array(0);
  const [signal, kernel] = a.length >= b.length ? [a, b] : [b, a];
  const length = signal.length + kernel.length - 1;
  let n = 2;
  while (n < Math.min(length, 4 * kernel.length)) n *= 2;
  const block = n - kernel.length + 1;
  const kernelRe = new Float64Array(n);
  const kernelIm = new Float64Array(n);
  kernelRe.set(kernel);
  fft(kernelRe, kernelIm);
  const sum = new Float64Array(length);
  const re = new Float64Array(n);
  const im = new Float64Array(n);
  for (let first = 0; first < signal.length; first += 2 * block) {
    re.fill(0);
    im.fill(0);
    re.set(signal.subarray(first, first + block));
    im.set(signal.subarray(first + block, first + 2 * block));
    fft(re, im);
    for (let k = 0; k < n; k++) {
      const [x, y, u, v] = [re[k] as number, im[k] as number, kernelRe[k] as number, kernelIm[k] as number];
      re[k] = x * u - y * v;
      im[k] = x * v + y * u;
    }
    fft(re, im, true);
    for (let i = 0; i < n && first + i < length; i++) sum[first + i] = (sum[first + i] as number) + (re[i] as number) / n;
    const second = first + block;
    for (let i = 0; i < n && second + i < length; i++) sum[second + i] = (sum[second + i] as number) + (im[i] as number) / n;
  }
  return Float32Array.from(sum);
}
