/** The option kinds of commands. They live in util, so that the API's functions (which stand below the command line) share them. */
export * from "../util/options.ts";
