/** Names as icefall's parameters have them: encoderDim -> encoder_dim. */
export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
