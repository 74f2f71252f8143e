import fc from "fast-check";
import { compressLilcom, decompressLilcom } from "../../src/formats/lilcom.ts";
import { parseNpy, serializeNpy } from "../../src/formats/npy.ts";
import { damaged, fuzz } from "./fuzz.ts";

const array = fc
  .tuple(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }), fc.infiniteStream(fc.oneof(fc.constant(0), fc.float({ min: -100, max: 100, noNaN: true }))))
  .map(([shape, stream]) => {
    const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
    for (let i = 0; i < data.length; i++) data[i] = stream.next().value as number;
    return { shape, data };
  });
const header = fc.uint8Array({ maxLength: 60 }).map((bytes) => Uint8Array.from([0x4c, 0, ...bytes]));

fuzz("lilcom: damaged data, and any bytes behind its header", fc.oneof(damaged(array.map((one) => compressLilcom(one))), header), (bytes) => decompressLilcom(bytes), {
  weight: 2,
});
fuzz("npy: damaged files", damaged(array.map(serializeNpy)), (bytes) => parseNpy(bytes));
